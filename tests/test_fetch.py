"""Downloads: once, complete or not at all, with clear messages."""

import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from cdsa.datasets.fetch import download
from cdsa.datasets.registry import get_dataset
from cdsa.datasets.spec import Download
from cdsa.errors import ConfigError


@pytest.fixture
def server(tmp_path):
    """A folder served over HTTP, and its address."""
    folder = tmp_path / "server"
    folder.mkdir()
    handler = partial(QuietHandler, directory=str(folder))
    http_server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=http_server.serve_forever, daemon=True)
    thread.start()
    yield folder, f"http://127.0.0.1:{http_server.server_port}"
    http_server.shutdown()
    http_server.server_close()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def send_header(self, name, value):
        """Announce more of one file than there is."""
        if name == "Content-Length" and self.path == "/cut.txt":
            value = str(int(value) + 1000)
        super().send_header(name, value)


def with_download(address):
    return replace(get_dataset("kdd2015-pm25"), downloads=(address,))


def test_a_file_is_downloaded_once(server, tmp_path):
    folder, url = server
    (folder / "a.txt").write_text("first")
    spec = with_download(Download(url=f"{url}/a.txt", files=("a.txt",)))
    target = tmp_path / "cache"
    assert download(spec, target) == [target / "a.txt"]
    (folder / "a.txt").write_text("second")
    assert download(spec, target) == []
    assert (target / "a.txt").read_text() == "first"
    assert [path.name for path in target.iterdir()] == ["a.txt"]


def test_members_of_an_archive_are_extracted_by_their_base_names(server, tmp_path):
    folder, url = server
    with zipfile.ZipFile(folder / "all.zip", "w") as archive:
        archive.writestr("deep/inside/a.txt", "A")
        archive.writestr("../../evil.txt", "E")
    target = tmp_path / "cache"
    download(with_download(Download(url=f"{url}/all.zip", files=("a.txt",))), target)
    assert (target / "a.txt").read_text() == "A"
    assert [path.name for path in target.iterdir()] == ["a.txt"]
    assert not list(tmp_path.rglob("evil.txt"))
    with pytest.raises(ConfigError, match="should contain b.txt"):
        download(with_download(Download(url=f"{url}/all.zip", files=("b.txt",))), target)


def test_a_web_page_in_place_of_a_file_is_not_saved(server, tmp_path):
    folder, url = server
    (folder / "a.txt").write_text("\n<!DOCTYPE html><html>Please sign in</html>")
    with pytest.raises(ConfigError, match="received a web page"):
        download(with_download(Download(url=f"{url}/a.txt", files=("a.txt",))), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_truncated_file_is_not_saved(server, tmp_path):
    folder, url = server
    (folder / "cut.txt").write_text("a part")
    with pytest.raises(ConfigError, match="could not be"):
        download(
            with_download(Download(url=f"{url}/cut.txt", files=("cut.txt",))), tmp_path / "cache"
        )
    assert not (tmp_path / "cache").exists()


def test_without_a_connection_the_message_says_what_to_do(server, tmp_path):
    _, url = server
    for address in (f"{url}/absent.txt", "http://127.0.0.1:9/a.txt"):
        with pytest.raises(ConfigError, match=r"could not be reached.*another machine.*--data"):
            download(with_download(Download(url=address, files=("a.txt",))), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
