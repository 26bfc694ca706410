// Requests to the server: responses as objects, error messages as errors with a status.
export const request = async (path, init = {}) => {
  let response;
  try {
    response = await fetch(path, init);
  } catch {
    throw new Error("the server cannot be reached. Is it still running?");
  }
  if (response.status === 204) return null;
  const content = await response.json().catch(() => ({ detail: `the server answered with status ${response.status}` }));
  if (!response.ok) throw Object.assign(new Error(content.detail), { status: response.status });
  return content;
};

export const sendJson = (path, body, method = "POST") => request(path, {
  method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
});

// Removing something that may be gone already.
export const remove = (path) => request(path, { method: "DELETE" }).catch(() => {});

export const queryString = (parameters) => new URLSearchParams(
  Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined)).toString();
