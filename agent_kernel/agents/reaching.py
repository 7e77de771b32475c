"""What reaches outside the variables, by the names under which Python and its libraries offer it: tables for `review`."""

from __future__ import annotations

from typing import Final

__all__ = ["BUILTINS", "FUNCTIONS", "HARMLESS", "METHODS", "MODULES", "PATH_WORDS", "QUIET", "WRITERS"]


def _of(kinds: dict[str, str]) -> dict[str, str]:
    return {name: kind for kind, names in kinds.items() for name in names.split()}


# Modules that reach outside, by what they reach: importing one has to be asked about, and so has calling into it.
MODULES: Final = _of(
    {
        "network": "socket ssl http urllib urllib2 urllib3 httpx requests aiohttp ftplib smtplib imaplib poplib telnetlib "
        "websockets websocket paramiko boto3 botocore s3fs gcsfs google.cloud azure xmlrpc socketserver webbrowser",
        "processes": "subprocess multiprocessing pty pexpect sh pip",
        "dynamic": "ctypes cffi imp code codeop marshal",
        "history": "agent_kernel",
    }
)
# Modules of which only some calls do; importing them does nothing.
QUIET: Final = frozenset({"urllib.parse", "http.HTTPStatus", "multiprocessing.cpu_count"})
HARMLESS: Final = frozenset({"shutil.which", "shutil.disk_usage", "shutil.get_terminal_size", "urllib.parse"})

_OS_FILES: Final = (
    "remove unlink rmdir removedirs rename renames replace makedirs mkdir chmod chown lchown link symlink truncate open "
    "write mkfifo mknod utime"
)
_OS_PROCESSES: Final = (
    "system popen fork forkpty kill killpg abort _exit execl execle execlp execlpe execv execve execvp execvpe spawnl "
    "spawnle spawnlp spawnv spawnve spawnvp startfile posix_spawn posix_spawnp"
)
FUNCTIONS: Final[dict[str, str]] = {
    **{f"os.{name}": "files" for name in _OS_FILES.split()},
    **{f"os.{name}": "processes" for name in _OS_PROCESSES.split()},
    **dict.fromkeys(["os.putenv", "os.unsetenv", "os.chdir", "os.setuid", "os.umask"], "process state"),
    **{
        f"shutil.{name}": "files"
        for name in [
            "rmtree",
            "move",
            "copy",
            "copy2",
            "copyfile",
            "copytree",
            "copymode",
            "copystat",
            "make_archive",
            "unpack_archive",
            "chown",
        ]
    },
    **{f"numpy.{name}": "files" for name in ("save", "savez", "savez_compressed", "savetxt", "memmap")},
    **dict.fromkeys(
        ["joblib.dump", "torch.save", "cv2.imwrite", "tempfile.mkdtemp", "tempfile.mkstemp", "io.FileIO"], "files"
    ),
    **dict.fromkeys(["tempfile.NamedTemporaryFile", "logging.FileHandler", "fileinput.input"], "files"),
    **dict.fromkeys(["asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"], "processes"),
    **dict.fromkeys(["asyncio.open_connection", "asyncio.start_server"], "network"),
    **dict.fromkeys(["pickle.load", "pickle.loads", "joblib.load", "torch.load", "dill.load", "dill.loads"], "dynamic"),
    **dict.fromkeys(
        ["cloudpickle.load", "cloudpickle.loads", "importlib.import_module", "importlib.reload"], "dynamic"
    ),
    **dict.fromkeys(["runpy.run_path", "runpy.run_module", "types.FunctionType", "types.CodeType"], "dynamic"),
    **dict.fromkeys(["seaborn.load_dataset", "datasets.load_dataset", "openml.datasets.get_dataset"], "network"),
    **dict.fromkeys(["sys.exit", "os._exit"], "kernel"),
    **dict.fromkeys(
        ["signal.signal", "signal.alarm", "signal.raise_signal", "sys.addaudithook", "sys.settrace"], "process state"
    ),
    **dict.fromkeys(
        ["sqlalchemy.create_engine", "psycopg2.connect", "psycopg.connect", "pymongo.MongoClient"], "database"
    ),
}
BUILTINS: Final[dict[str, str]] = {
    **dict.fromkeys(["eval", "exec", "compile", "__import__"], "dynamic"),
    **dict.fromkeys(["input", "breakpoint"], "person"),
    **dict.fromkeys(["exit", "quit"], "kernel"),
}
# Methods whose names say enough, on whatever they are called.
METHODS: Final = _of(
    {
        "files": "write_text write_bytes unlink rmdir mkdir touch symlink_to hardlink_to savefig tofile savetxt imsave imwrite "
        "write_csv write_parquet write_json write_excel write_ipc write_image write_html save_pretrained extractall "
        "save_model to_pickle to_parquet to_feather to_hdf to_stata to_excel to_orc sink_parquet sink_csv",
        "network": "urlopen urlretrieve sendmail send_message push_to_hub from_pretrained to_gbq",
        "database": "execute executemany executescript to_sql",
    }
)
# Methods that write only where they are given a place to; without one they return the text.
WRITERS: Final = frozenset(
    ["to_csv", "to_json", "to_html", "to_latex", "to_markdown", "to_string", "to_xml", "save", "dump"]
)
# A name in which one of these stands is taken for that of a path where a method could as well be a table's.
PATH_WORDS: Final = ("path", "file", "folder", "directory")
