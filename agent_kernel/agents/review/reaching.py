"""What reaches outside the variables, by the names under which Python and its libraries offer it: tables for `review`."""

from __future__ import annotations

import re
from typing import Final

from agent_kernel.values.redacted_values import DATABASE_MODULES, NETWORK_MODULES

__all__ = [
    "BROWSER",
    "BUILTINS",
    "COLUMN_WORDS",
    "FUNCTIONS",
    "HARMLESS",
    "HARMLESS_DUNDERS",
    "HARMLESS_TYPES",
    "HIDDEN_WAYS",
    "METHODS",
    "MODULES",
    "OPENERS",
    "PATH_WORDS",
    "PYTHONS_OWN",
    "QUIET_TYPES",
    "READS",
    "READ_OF_OPEN",
    "SHOWN_AS",
    "SINKS",
    "SQL_LEAVES",
    "SQL_READS",
    "SQL_WRITES",
    "STATEMENTS",
    "TALKER_WORDS",
    "WRITERS",
    "WRITES",
    "words",
]


def _of(kinds: dict[str, str]) -> dict[str, str]:
    return {name: kind for kind, names in kinds.items() for name in names.split()}


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())


def _in(module: str, names: str, kind: str) -> dict[str, str]:
    return {f"{module}.{name}": kind for name in names.split()}


# Modules that reach outside, by what they reach: calling into one has to be asked about; importing one does nothing.
MODULES: Final = _of(
    {
        "network": NETWORK_MODULES,
        "processes": "subprocess multiprocessing pty pexpect sh pip docker fabric posixsubprocess",
        "database": DATABASE_MODULES,
        "dynamic": "ctypes cffi imp code codeop marshal",
        "clipboard": "pyperclip",
        "person": "pyautogui pynput keyring getpass",
        "history": "agent_kernel",
    }
)
# What of them reaches nothing: single functions, modules, and what they name.
HARMLESS: Final = frozenset(
    words(
        "shutil.which shutil.disk_usage shutil.get_terminal_size urllib.parse http.HTTPStatus getpass.getuser "
        "socket.gethostname multiprocessing.cpu_count multiprocessing.current_process multiprocessing.pool.ThreadPool "
        "multiprocessing.dummy ctypes.sizeof ctypes.alignment ctypes.create_string_buffer ctypes.byref"
    )
)
HARMLESS_TYPES: Final = re.compile(r"ctypes\.(?:c_\w+|Structure|Union|Array)")
# What comes back from such modules, whose methods reach nothing any more.
QUIET_TYPES: Final = re.compile(
    r"\w*(?:Response|Request|Headers|Dict|Cookie\w*|URL|Timeout|Limits|Error|Retry)|Completed\w+"
)

_OS_FILES: Final = (
    "remove unlink rmdir removedirs rename renames replace makedirs mkdir chmod chown lchown link symlink truncate open "
    "write mkfifo mknod utime ftruncate pwrite writev sendfile setxattr fchmod fchown"
)
_OS_PROCESSES: Final = (
    "system popen fork forkpty kill killpg abort _exit execl execle execlp execlpe execv execve execvp execvpe spawnl "
    "spawnle spawnlp spawnv spawnve spawnvp startfile posix_spawn posix_spawnp"
)
FUNCTIONS: Final[dict[str, str]] = {
    **_in("os", _OS_FILES, "files"),
    **_in("os", _OS_PROCESSES, "processes"),
    **_in("os", "putenv unsetenv chdir fchdir chroot setuid umask dup2 nice", "process state"),
    **_in(
        "shutil",
        "rmtree move copy copy2 copyfile copyfileobj copytree copymode copystat make_archive unpack_archive chown",
        "files",
    ),
    **_in("numpy", "save savez savez_compressed savetxt memmap", "files"),
    **_in("logging", "FileHandler config.fileConfig config.dictConfig", "files"),
    **_in(
        "logging.handlers",
        "RotatingFileHandler TimedRotatingFileHandler WatchedFileHandler BaseRotatingHandler",
        "files",
    ),
    **_in("logging.handlers", "SocketHandler DatagramHandler SysLogHandler SMTPHandler HTTPHandler", "network"),
    **_of(
        {
            "files": "lmdb.open lmdb.Environment joblib.dump torch.save torch.onnx.export cv2.imwrite cv2.VideoWriter io.FileIO fileinput.input "
            "shelve.open dbm.open pandas.ExcelWriter pandas.HDFStore scipy.io.savemat scipy.io.wavfile.write "
            "scipy.sparse.save_npz soundfile.write safetensors.torch.save_file joblib.Memory diskcache.Cache dill.dump_session "
            "pyarrow.output_stream pyarrow.memory_map pyarrow.create_memory_map pyarrow.ipc.new_file pyarrow.ipc.new_stream "
            "pyarrow.RecordBatchFileWriter torch.from_file torch.UntypedStorage.from_file scipy.io.mmwrite "
            "nbformat.write zipapp.create_archive py_compile.compile compileall.compile_dir venv.create",
            "processes": "asyncio.create_subprocess_exec asyncio.create_subprocess_shell "
            "distutils.spawn.spawn ensurepip.bootstrap "
            "concurrent.futures.ProcessPoolExecutor concurrent.futures.process.ProcessPoolExecutor",
            "network": "asyncio.open_connection asyncio.start_server seaborn.load_dataset datasets.load_dataset "
            "transformers.pipeline openml.datasets.get_dataset torch.hub.load torch.hub.download_url_to_file",
            "dynamic": "pickle.load pickle.loads pickle.Unpickler joblib.load torch.load dill.load dill.loads cloudpickle.load "
            "cloudpickle.loads importlib.import_module importlib.reload importlib.__import__ runpy.run_path runpy.run_module "
            "importlib.util.module_from_spec importlib.util.spec_from_file_location importlib.machinery.SourceFileLoader "
            "types.FunctionType types.CodeType pydoc.locate pkgutil.resolve_name cProfile.run cProfile.runctx profile.run "
            "pdb.run yaml.unsafe_load jsonpickle.decode sys.modules.get sys._getframe numpy.f2py.compile inspect.currentframe gc.get_objects gc.get_referrers",
            "kernel": "sys.exit os._exit",
            "process state": "signal.signal signal.alarm signal.setitimer signal.raise_signal sys.addaudithook sys.settrace "
            "sys.setprofile sys.meta_path.insert sys.meta_path.append sys.path_hooks.append atexit.register faulthandler.enable resource.setrlimit",
            "database": "sqlalchemy.create_engine mysql.connector.connect",
            "person": "pdb.set_trace",
            "clipboard": "pandas.read_clipboard",
            "shell": "IPython.get_ipython IPython.core.getipython.get_ipython IPython.start_ipython IPython.embed",
        }
    ),
}
BUILTINS: Final[dict[str, str]] = {
    **dict.fromkeys(["eval", "exec", "compile", "__import__"], "dynamic"),
    **dict.fromkeys(["input", "breakpoint"], "person"),
    **dict.fromkeys(["exit", "quit"], "kernel"),
    "get_ipython": "shell",
}
# Methods whose names say enough, on whatever they are called.
METHODS: Final = _of(
    {
        "files": "write_text write_bytes unlink rmdir mkdir touch symlink_to hardlink_to savefig tofile savetxt imsave imwrite "
        "mimsave mimwrite write_table write_feather write_dataset write_file save_mfdataset write_parquet write_excel write_image write_html save_pretrained extractall save_model "
        "save_weights to_pickle to_feather to_hdf to_stata to_excel to_netcdf to_zarr to_file sink_parquet sink_csv "
        "sink_ndjson sink_ipc open_output_stream open_append_stream create_dir delete_file delete_dir delete_dir_contents "
        "copy_file",
        "network": "urlopen urlretrieve sendmail send_message push_to_hub from_pretrained to_gbq sendall sendto "
        "create_connection create_server open_connection connect_ex download get_file",
        "processes": "getoutput getstatusoutput check_output check_call Popen create_subprocess_exec create_subprocess_shell "
        "subprocess_exec subprocess_shell kill terminate send_signal",
        "database": "write_database execute executemany executescript to_sql insert_into",
        "clipboard": "to_clipboard read_clipboard",
        "shell": "run_line_magic run_cell_magic run_cell run_code",
    }
)
# Methods that write only where they are given a place to; without one they return what they make.
WRITERS: Final = words(
    "to_csv to_json to_html to_latex to_markdown to_string to_xml to_parquet to_orc write_csv write_json write_ndjson write_ipc "
    "save dump"
)
WRITES: Final = re.compile(r"(?:write|sink)_\w+")  # other methods and functions of libraries that say so
# What opens, makes, moves and deletes files by Python's own functions, so that the gate sees where as it happens.
PYTHONS_OWN: Final = words(
    "open write_text write_bytes touch mkdir makedirs unlink remove rmdir removedirs rename renames replace truncate chmod "
    "symlink_to hardlink_to symlink link copy copy2 copyfile copytree move rmtree make_archive unpack_archive extractall "
    "to_csv to_json to_html to_pickle savefig savetxt savez savez_compressed tofile ZipFile GzipFile"
) | words("numpy.save joblib.dump pickle.dump sqlite3.connect")
# Like `open`: they write where their mode says so.
OPENERS: Final = words(
    "ZipFile zipfile.ZipFile tarfile.open tarfile.TarFile h5py.File gzip.GzipFile bz2.BZ2File lzma.LZMAFile "
    "netCDF4.Dataset os.fdopen pyarrow.OSFile"
)
# What the browser is given to run or to load.
BROWSER: Final = words(
    "HTML Javascript IFrame display_html display_javascript publish_display_data YouTubeVideo Markdown SVG"
)
READS: Final = re.compile(
    r"read_\w+|loadtxt|genfromtxt|imread|load_dataset|fetch_\w+|scan_\w+|open_dataset|open_zarr|open_dataarray"
)
SQL_WRITES: Final = re.compile(
    r"(?is)\b(?:copy\s.+\bto\b|attach\s|install\s+\w|export\s+database|insert\s+(?:or\s+\w+\s+)?into\b|delete\s+from\b|"
    r"drop\s+(?:table|view|schema|database|index)\b|update\s+\S+\s+set\b|alter\s+table\b|truncate\s+table\b|"
    r"create\s+(?:or\s+replace\s+)?(?:temp\w*\s+)?(?:table|view|schema|database|index)\b)"
)
# Methods that take a statement for a database.
STATEMENTS: Final = words("execute executemany executescript sql query")
# What reads a database alone, and what reaches out of one that is in memory.
SQL_READS: Final = re.compile(r"(?is)\s*(?:select|with|values|explain|describe|show|from|summarize)\b(?!.*\binto\b)")
SQL_LEAVES: Final = re.compile(
    r"(?is)\b(?:attach|install|load|copy|export|import|into\s+(?:out|dump)file|vacuum\b.*\binto)\b|://|load_extension|writefile"
)
SINKS: Final = ("/dev/null", "/dev/tty", "/dev/stdout", "/dev/stderr", "/dev/pts/")  # files that keep nothing
# A name in which one of these stands is taken for that of a path where a method could as well be a table's.
PATH_WORDS: Final = re.compile(
    r"(?i)(?:^|_)(?:(?:in|out|tmp|temp|src|dst|log|csv)?(?:path|file|folder|directory|dir)s?\d*|(?:file|path)name)(?:_|$)"
)
# And one that ends with one of these for that of something that talks to a server, where a method could be anything's.
TALKER_WORDS: Final = re.compile(r"(?i)(?:^|_)(?:session|client|http|https|api|conn|connection)$")
# Attributes that lead from any object to everything that its interpreter has.
HIDDEN_WAYS: Final = words("f_globals f_builtins f_locals f_back gi_frame cr_frame ag_frame tb_frame")
# Methods by which an object says how a notebook shows it.
SHOWN_AS: Final = words("_repr_html_ _repr_javascript_ _repr_mimebundle_ _repr_svg_ _ipython_display_")
# What is read of a file or a connection that is open.
READ_OF_OPEN: Final = words(
    "read readline readlines closed name mode encoding tell seek readable writable seekable namelist getnames close cursor "
    "description rowcount fetchone fetchall fetchmany fetchdf df iterdump in_transaction total_changes"
)
# What attributes and methods are called that are as well a column's name.
COLUMN_WORDS: Final = words("execute touch download save dump")
HARMLESS_DUNDERS: Final = frozenset(
    f"__{name}__"
    for name in words(
        "init name doc class len version file qualname module repr str iter next enter exit post_init annotations all array "
        "dataclass_fields eq hash call getitem setitem contains new init_subclass add mul sub"
    )
)
