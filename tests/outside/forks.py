"""A server starts as fast as a process forks: one process has imported what each of them imports, which takes 2 s.

`python forks.py SOCKET` waits for those who want a server. `python forks.py SOCKET mcp WORDS...` hands its streams, its
folder and its environment over to a fork of that process, which runs the command and ends as it would by itself, and
waits until it has.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import socket
import sys
import traceback
from pathlib import Path


def wait_for_asking(path: str) -> list[str]:
    """Fork for each who asks. Returns in the fork: the words of its command."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the forks are nobody's to wait for
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{path}-new")
        listening.listen()
        Path(f"{path}-new").rename(path)  # whoever finds it can ask
        while True:
            asking, _ = listening.accept()
            with asking:
                sent, streams, _, _ = socket.recv_fds(asking, 1 << 18, 3)
                if not os.fork():
                    break
                for stream in streams:
                    os.close(stream)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    asked = json.loads(sent)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    # Open until this process has ended; nothing that it starts inherits it.
    answered = os.open(asked["ends"], os.O_WRONLY)
    os.write(answered, f"{os.getpid()}\n".encode())
    words: list[str] = asked["words"]
    return words


def ask(path: str, words: list[str]) -> None:
    """Let a fork run the command, and wait for its end."""
    ends = f"{path}-{os.getpid()}"
    os.mkfifo(ends)
    asked = {"words": words, "folder": str(Path.cwd()), "environment": dict(os.environ), "ends": ends}
    with socket.socket(socket.AF_UNIX) as helper:
        helper.connect(path)
        socket.send_fds(helper, [json.dumps(asked).encode()], [0, 1, 2])
    with Path(ends).open() as answers:
        fork = int(answers.readline())
        signal.signal(signal.SIGTERM, lambda *_: os.kill(fork, signal.SIGTERM))
        for number in range(3):  # else who reads them would wait for this process, too
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        answers.read()
    Path(ends).unlink()


_IMPORTED = (
    "agent_kernel.mcp",
    "agent_kernel.repository.objects",
    "agent_kernel.session.loading",
    "agent_kernel.session.staging",
    "agent_kernel.storage.lmdb",
    "agent_kernel.values.loader",
    "jupyter_client.asynchronous",
    "jupyter_client.blocking",
    "mcp.server.mcpserver",
    "rich.console",
)


def serve(words: list[str]) -> None:
    """Run the command, and end without taking down what was imported, which takes half a second."""
    from agent_kernel.__main__ import main

    status = 1
    try:
        status = main(words)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        ask(sys.argv[1], sys.argv[2:])
    else:
        for name in _IMPORTED:
            importlib.import_module(name)
        serve(wait_for_asking(sys.argv[1]))
