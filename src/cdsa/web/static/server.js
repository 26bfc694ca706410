// Asking the server: answers as objects, and what it refuses as errors in its own words.
export const ask = async (path, options = {}) => {
  let reply;
  try {
    reply = await fetch(path, options);
  } catch {
    throw new Error("the server cannot be reached. Is it still running?");
  }
  if (reply.status === 204) return null;
  const told = await reply.json().catch(() => ({ detail: `the server answered with ${reply.status}` }));
  if (!reply.ok) throw Object.assign(new Error(told.detail), { status: reply.status });
  return told;
};

export const sent = (path, body, method = "POST") => ask(path, {
  method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
});

export const query = (given) => new URLSearchParams(
  Object.entries(given).filter(([, value]) => value !== null && value !== undefined)).toString();
