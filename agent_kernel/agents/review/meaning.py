"""What the names in a piece of code stand for: functions of modules by their dotted names, texts, paths, buffers.

It follows imports, aliases and constants of the code, and what variables of the notebook are by their types. No code of
a value runs: what a type or function says of itself is read past its own attribute access.
"""

from __future__ import annotations

import ast
import dis
import functools
import gc
import io
import os
import re
import sys
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, cast

from agent_kernel.agents.side_effects import is_own, is_read_only
from agent_kernel.values.definitions import find_nested_codes
from agent_kernel.values.introspection import (
    bases_of,
    class_dict,
    derives_from,
    exact_str,
    find_loaded,
    instance_dict,
    is_of_notebook,
    module_dict,
    module_name,
)
from agent_kernel.values.redacted_values import DATABASE_MODULES, NETWORK_MODULES, is_in_memory
from agent_kernel.values.references import is_library

# -- what reaches outside the variables, by the names under which Python and its libraries offer it: tables for `review`


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
        "network": f"{NETWORK_MODULES} pyarrow.flight torch.distributed.rpc",
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
        "multiprocessing.dummy ctypes.sizeof ctypes.alignment ctypes.create_string_buffer ctypes.byref "
        "requests.utils.quote requests.utils.unquote requests.compat httpx.URL httpx.Timeout"
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
            "files": "pyarrow.CompressedOutputStream pyarrow.csv.CSVWriter pyarrow.parquet.ParquetWriter pyarrow.orc.ORCWriter "
            "pyarrow.RecordBatchStreamWriter pyarrow.ipc.RecordBatchFileWriter pyarrow.ipc.RecordBatchStreamWriter "
            "torch.distributed.FileStore lmdb.open lmdb.Environment joblib.dump torch.save torch.jit.save torch.package.PackageExporter torch.onnx.export cv2.imwrite cv2.VideoWriter io.FileIO fileinput.input "
            "shelve.open dbm.open pandas.ExcelWriter pandas.HDFStore scipy.io.savemat scipy.io.wavfile.write "
            "scipy.sparse.save_npz soundfile.write safetensors.torch.save_file joblib.Memory diskcache.Cache dill.dump_session "
            "pyarrow.output_stream pyarrow.memory_map pyarrow.create_memory_map pyarrow.ipc.new_file pyarrow.ipc.new_stream "
            "pyarrow.RecordBatchFileWriter torch.from_file torch.UntypedStorage.from_file scipy.io.mmwrite "
            "nbformat.write zipapp.create_archive py_compile.compile compileall.compile_dir venv.create",
            "processes": "asyncio.create_subprocess_exec asyncio.create_subprocess_shell "
            "distutils.spawn.spawn ensurepip.bootstrap "
            "concurrent.futures.ProcessPoolExecutor concurrent.futures.process.ProcessPoolExecutor",
            "network": "torch.distributed.init_process_group torch.distributed.TCPStore torch.distributed.rendezvous "
            "pyarrow.flight.FlightServerBase asyncio.open_connection asyncio.start_server seaborn.load_dataset datasets.load_dataset "
            "pyarrow.fs.S3FileSystem pyarrow.fs.GcsFileSystem pyarrow.fs.AzureFileSystem pyarrow.fs.HadoopFileSystem "
            "transformers.pipeline openml.datasets.get_dataset torch.hub.load torch.hub.download_url_to_file",
            "dynamic": "pickle.load pickle.loads pickle.Unpickler joblib.load torch.load dill.load dill.loads cloudpickle.load "
            "cloudpickle.loads importlib.import_module importlib.reload importlib.__import__ runpy.run_path runpy.run_module "
            "importlib.util.module_from_spec importlib.util.spec_from_file_location importlib.machinery.SourceFileLoader "
            "types.FunctionType types.CodeType pydoc.locate pkgutil.resolve_name cProfile.run cProfile.runctx profile.run "
            "pdb.run polars.plugins.register_plugin_function typing.get_type_hints yaml.unsafe_load jsonpickle.decode sys.modules.get sys._getframe numpy.f2py.compile inspect.currentframe gc.get_objects gc.get_referrers",
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
        "copy_file _save_for_lite_interpreter _save_for_mobile export_chrome_trace",
        "network": "urlopen urlretrieve sendmail send_message push_to_hub from_pretrained to_gbq sendall sendto "
        "create_connection create_server open_connection connect_ex download get_file",
        "processes": "getoutput getstatusoutput check_output check_call Popen create_subprocess_exec create_subprocess_shell "
        "subprocess_exec subprocess_shell kill terminate send_signal ionice cpu_affinity nice",
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
STATEMENTS: Final = words("execute executemany executescript sql query from_query")
# Settings by which a database writes files from then on.
SQL_SETTINGS: Final = re.compile(
    r"(?is)\b(?:call|set|pragma)\b[^;]*?(?:enable_logging|logging_\w+|log_query_path|storage_path|profil\w*_output|\w+_directory)\b"
)
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
COLUMN_WORDS: Final = words("execute touch download save dump nice")
HARMLESS_DUNDERS: Final = frozenset(
    f"__{name}__"
    for name in words(
        "init name doc class len version file qualname module repr str iter next enter exit post_init annotations all array "
        "dataclass_fields eq hash call getitem setitem contains new init_subclass add mul sub"
    )
)


_PATHS: Final = frozenset({"Path", "pathlib.Path", "PosixPath", "pathlib.PosixPath", "os.path.join"})
_BUFFERS: Final = frozenset({"io.BytesIO", "io.StringIO", "BytesIO", "StringIO", "pyarrow.BufferOutputStream"})
_STREAMS: Final = frozenset({"sys.stdout", "sys.stderr"})
_WHOLE: Final = frozenset(
    {"open", "sys.modules", "os.environ", "os.environb"}
)  # what a name may stand for, besides what reaches outside by itself
# Modules all of which may be reached through one that is handed around, and through others that import them.
WHOLE_MODULES: Final = frozenset({"os", "shutil", "builtins", "sys", "subprocess", "importlib"})
_MADE: Final = frozenset({"session", "socket", "client", "resource", "connect", "create_connection", "SMTP"})
# As people import them, where a cell before did so.
_USUAL: Final = {"np": "numpy", "sns": "seaborn", "sa": "sqlalchemy", "pd": "pandas"}
# Modules in C, and those whose names are theirs.
_BEHIND: Final = {
    "_duckdb": "duckdb",
    "posix": "os",
    "nt": "os",
    "_io": "io",
    "_pickle": "pickle",
    "_socket": "socket",
    "_ctypes": "ctypes",
    "_sqlite3": "sqlite3",
}
# The same of modules in packages, with what stands behind the name.
_BEHIND_IN: Final = re.compile(
    r"(pyarrow)\.lib(?=\.|$)|(pyarrow)\._(?=csv|flight|parquet|orc|fs|dataset)|(pyarrow\.)_(?:s3|gcs|azure|hd)(?=fs\.)|(lmdb)\.(?:cpython|cffi)(?=\.|$)|"
    r"(torch\.)_C\._distributed_c10d(?=\.|$)|(torch\.distributed)\.distributed_c10d(?=\.|$)"
)
_PICKLED: Final = frozenset({"pickle.dumps", "cloudpickle.dumps", "dill.dumps", "joblib.dumps"})
_ON_PATHS: Final = frozenset({"joinpath", "with_suffix", "with_name", "open", "absolute", "resolve", "as_posix"})
_FILES: Final = frozenset(
    map(id, (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair, io.FileIO))
)
_DATABASES: Final = re.compile(r"sqlite3\.(?:Connection|Cursor)|_?duckdb\.DuckDBPyConnection")
_LAST_STREAM: Final = 2  # numbers of standard input and output, and of errors
_MOST_HELD: Final = 300  # objects that are looked at in a variable
_CONTAINERS: Final = frozenset(map(id, (list, tuple, dict, set, frozenset, deque)))
_HOLDERS: Final = frozenset(map(id, (functools.partial, MethodType, BuiltinFunctionType, map, filter)))
_HOLDING: Final = frozenset(
    {"_csv", "csv", "zipfile", "tarfile", "gzip", "bz2", "lzma", "codecs", "contextlib", "tempfile", "types"}
)
_QUIET_OPEN: Final = ("agent_kernel.", "ctypes.", "http.cookie", "multiprocessing.pool.ThreadPool", "ssl._")
_OWN = "\N{PRIME}"  # behind the name of a variable, so that it is taken for no module's nor builtin's


class Meanings:
    """What the names of one piece of code mean.

    Args:
        namespace: the variables there are when it runs.
    """

    def __init__(self, tree: ast.Module, namespace: Mapping[str, object]) -> None:
        self._namespace = namespace
        self._dotted_names: dict[str, str] = {}  # names, and the dotted names that they stand for
        self._texts: dict[str, list[str]] = {}  # names, and what the texts begin with that they are bound to
        self._modes: dict[str, list[str]] = {}  # the same, where the whole text is known
        self._paths: set[str] = set()
        self._buffers: Counter[str] = Counter()  # names, and how often each is bound to a file in memory
        self._temporary: Counter[str] = Counter()  # the same of temporary files and folders
        self._databases: Counter[str] = Counter()  # of databases in memory
        self._pickles: Counter[str] = Counter()  # of what was pickled here
        stores = (node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
        self._stores = Counter(stores)
        self.assigned = frozenset(self._stores)
        for node in ast.walk(tree):
            self._learn(node)
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        self.makes_temporary = any(self.find_dotted_name(called).partition(".")[0] == "tempfile" for called in calls)

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.Import(names=imported):
                for alias in imported:
                    self._dotted_names[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            case ast.ImportFrom(module=str() as module, names=imported, level=0):
                for alias in imported:
                    self._dotted_names[alias.asname or alias.name] = f"{module}.{alias.name}"
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.NamedExpr(target=ast.Name(id=name), value=value)
                | ast.withitem(optional_vars=ast.Name(id=name), context_expr=value)
            ):
                self._note_assignment(name, value)
            case (
                ast.For(target=ast.Name(id=name), iter=several)
                | ast.comprehension(target=ast.Name(id=name), iter=several)
            ):
                if self.is_path(several):
                    self._paths.add(name)
            case _:
                pass

    def _note_assignment(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Attribute | ast.Name):
            dotted = self.find_dotted_name(value)
            if reaches(dotted) or dotted in BUILTINS or dotted in _WHOLE:
                self._dotted_names[name] = dotted
        elif imported := self._find_import_call(value):
            self._dotted_names[name] = imported
        elif isinstance(value, ast.Call) and self._makes_a_talker(self.find_dotted_name(value.func)):
            self._dotted_names[name] = self.find_dotted_name(value.func)
        elif text := self.text(value):
            self._texts.setdefault(name, []).append(text)
        self._modes.setdefault(name, []).extend(self.whole_texts(value) or ())
        if self.is_path(value):
            self._paths.add(name)
        for found, counted in (
            (self.is_buffer(value), self._buffers),
            (self.is_temporary(value), self._temporary),
            (self.is_database_in_memory(value), self._databases),
            (self.is_own_pickle(value), self._pickles),
        ):
            counted[name] += found

    def _makes_a_talker(self, dotted: str) -> bool:
        """Whether what it returns talks to somebody, as a session does and a response does not."""
        last = dotted.rpartition(".")[2]
        return bool(module_kind(dotted)) and (last[:1].isupper() or last in _MADE) and not QUIET_TYPES.fullmatch(last)

    def find_dotted_name(self, node: ast.expr) -> str:
        """`os.remove` for whatever the code calls it; a part that has no name is `…`."""
        parts: list[str] = []
        while True:
            if isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.NamedExpr):
                node = node.value
            elif is_getattr(node) and isinstance(node, ast.Call):
                attribute = node.args[1]
                parts.append(attribute.value if isinstance(attribute, ast.Constant) else "…")  # type: ignore[arg-type]  # text
                node = node.args[0]
            elif (entry := entry_of(node)) is not None:  # `vars(os)["remove"]`
                texts = self.whole_texts(entry[1])
                parts.append(texts[0] if texts is not None and len(texts) == 1 else "…")
                node = entry[0]
            else:
                break
        while parts[:1] == ["__call__"]:
            del parts[0]
        names = [*self._head(node).split("."), *reversed(parts)]
        for at in range(len(names) - 1, 0, -1):  # `pathlib.os.remove` is `os.remove`
            if names[at].lstrip("_") in WHOLE_MODULES and at < len(names) - 1:
                names = [names[at].lstrip("_"), *names[at + 1 :]]
                break
        if names[0] in _BEHIND:
            names[0] = _BEHIND[names[0]]
        return _in_front(".".join(names[1:] if names[0] == "builtins" and len(names) > 1 else names))

    def _head(self, node: ast.expr) -> str:
        name = _name_of(node)
        if not name:
            return self._find_import_call(node) or "…"
        if name in self._dotted_names:
            return self._dotted_names[name]
        if name in self._namespace:
            meaning = meaning_of(self._namespace[name])
            if name not in self.assigned or reaches(meaning):
                return meaning or f"{name}{_OWN}"
        return _USUAL.get(name, name) if name not in self.assigned else name

    def opens(self, module: str) -> bool:
        """Whether a module has an `open` that stands in place of Python's where all of it is imported."""
        dotted = _in_front(f"{_BEHIND.get(module, module)}.open")
        return dotted in FUNCTIONS or dotted in OPENERS

    def _find_import_call(self, node: ast.expr) -> str:
        """`lmdb.cpython` of `importlib.import_module("lmdb.cpython")`."""
        if not (isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Name | ast.Attribute)):
            return ""
        if (called := self.find_dotted_name(node.func)) not in ("importlib.import_module", "__import__"):
            return ""
        texts = self.whole_texts(node.args[0])
        if texts is None or len(texts) != 1:
            return ""
        return texts[0] if called != "__import__" else texts[0].partition(".")[0]

    def text(self, node: ast.expr | None) -> str:
        """The text that an expression begins with, as far as it is known."""
        return next(iter(self.texts(node)), "")

    def texts(self, node: ast.expr | None) -> tuple[str, ...]:
        """All texts that it may begin with, of those that are known."""
        if isinstance(node, ast.BinOp) and (whole := self.whole_texts(node)):
            return whole
        match node:
            case ast.Constant(value=str() as text) | ast.JoinedStr(values=[ast.Constant(value=str() as text), *_]):
                return (text,)
            case ast.JoinedStr(values=[ast.FormattedValue(value=inner), *_]) | ast.BinOp(left=inner):
                return self.texts(inner)
            case ast.Name(id=name) if name in self._texts:
                return tuple(self._texts[name])
            case ast.Name(id=name) if name not in self.assigned and type(known := self._namespace.get(name)) is str:
                return (known,)
            case _:
                return ()

    def whole_texts(self, node: ast.expr) -> tuple[str, ...] | None:
        """All texts that it can be; None: nobody knows before it runs."""
        match node:
            case ast.Constant(value=str() as text):
                return (text,)
            case ast.IfExp(body=one, orelse=other):
                first, second = self.whole_texts(one), self.whole_texts(other)
                return None if first is None or second is None else first + second
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                first, second = self.whole_texts(left), self.whole_texts(right)
                return None if first is None or second is None else tuple(a + b for a in first for b in second)
            case ast.Name(id=name) if self._modes.get(name) and len(self._modes[name]) >= self._stores[name]:
                return tuple(self._modes[name])
            case ast.Name(id=name) if name not in self.assigned and type(known := self._namespace.get(name)) is str:
                return (known,)
            case _:
                return None

    def is_path(self, node: ast.expr) -> bool:
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and self.find_dotted_name(part.func) in _PATHS:
                return True
            if isinstance(part, ast.Name) and (part.id in self._paths or PATH_WORDS.search(part.id)):
                return True
            if isinstance(part, ast.Name) and self._head(part).startswith("pathlib."):
                return True
        return False

    def is_buffer(self, node: ast.expr) -> bool:
        """Whether it is a file in memory, or what is shown: what is written to it reaches no file."""
        if isinstance(node, ast.NamedExpr):
            return self.is_buffer(node.value)
        if isinstance(node, ast.Call):
            return self.find_dotted_name(node.func) in _BUFFERS
        if isinstance(node, ast.Name) and node.id in self.assigned:
            return self._is_only(node.id, self._buffers)
        if isinstance(node, ast.Name) and self._head(node) in _BUFFERS:
            return True
        return self.find_dotted_name(node) in _STREAMS

    def _is_only(self, name: str, counted: Counter[str]) -> bool:
        """Whether the code binds a name to nothing else than what was counted."""
        return 0 < self._stores[name] <= counted[name]

    def is_temporary(self, node: ast.expr) -> bool:
        """Whether it is a temporary file or folder, or the path of something in one."""
        match node:
            case ast.Name(id=name) if name in self.assigned:
                return self._is_only(name, self._temporary)
            case ast.Name(id=name):
                return is_own_place(self._namespace.get(name))
            case ast.Call(func=ast.Attribute(value=base, attr=method)) if method in _ON_PATHS and self.is_temporary(
                base
            ):
                return all(map(_stays_below, node.args))
            case ast.Call(func=called, args=args, keywords=words):
                if (name := self.find_dotted_name(called)).partition(".")[0] == "tempfile":
                    return not any(word.arg in ("dir", None) for word in words)
                is_path = name in _PATHS or name in ("str", "os.fspath")
                return is_path and bool(args) and self.is_temporary(args[0]) and all(map(_stays_below, args[1:]))
            case ast.BinOp(left=left, op=ast.Div() | ast.Add(), right=right):
                return self.is_temporary(left) and _stays_below(right, joins=isinstance(node.op, ast.Div))
            case ast.JoinedStr(values=[ast.FormattedValue(value=first), *rest]):
                return self.is_temporary(first) and all(_stays_below(one, joins=False) for one in rest)
            case ast.Attribute(value=base, attr="name" | "file"):
                return self.is_temporary(base)
            case ast.NamedExpr(value=value):
                return self.is_temporary(value)
            case _:
                return False

    def is_database_in_memory(self, node: ast.expr) -> bool:
        """Whether it is a connection that writes to no file but a temporary one, or a cursor of it."""
        match node:
            case ast.Name(id=name) if name in self.assigned:
                return self._is_only(name, self._databases)
            case ast.Name(id=name) if name in self._namespace:
                return is_in_memory(self._namespace[name])
            case ast.Call(func=ast.Attribute(value=base, attr="cursor" | "execute" | "executemany" | "register")):
                return self.is_database_in_memory(base)
            case ast.Call(func=called, args=args, keywords=words):
                name = self.find_dotted_name(called)
                arguments = args[0] if args else next((one.value for one in words if one.arg == "database"), None)
                if name not in ("sqlite3.connect", "duckdb.connect") or (arguments is None and words):
                    return False
                if arguments is None:
                    return name[0] == "d"
                is_kept = self.whole_texts(arguments) != (":memory:",) and not self.is_temporary(arguments)
                return not is_kept or self.opens_to_read(node, name)
            case _:
                return self.find_dotted_name(node) == "duckdb"  # the module's own one

    def opens_to_read(self, node: ast.Call, name: str) -> bool:
        """Whether a connection to a database is opened only to be read.

        Args:
            name: of the function that opens it, dotted.
        """
        words = {one.arg: one.value for one in node.keywords}
        word = words.get("uri" if name == "sqlite3.connect" else "read_only")
        if not (isinstance(word, ast.Constant) and word.value is True):
            return False
        arguments = self.whole_texts(node.args[0]) if node.args else None
        return name == "duckdb.connect" or bool(arguments and all(map(is_read_only, arguments)))

    def is_own_pickle(self, node: ast.expr) -> bool:
        """Whether it was pickled by this code: what is loaded from it is what there was."""
        if isinstance(node, ast.Name) and node.id in self.assigned:
            return self._is_only(node.id, self._pickles)
        return isinstance(node, ast.Call) and self.find_dotted_name(node.func) in _PICKLED

    def is_imported(self, node: ast.expr) -> bool:
        """Whether the name that an expression begins with is a module, or something of one, that was imported."""
        while isinstance(node, ast.Attribute):
            node = node.value
        name = _name_of(node)
        known = self._namespace.get(name) if name not in self.assigned else None
        return name in self._dotted_names or derives_from(type(known), ModuleType)


def _stays_below(node: ast.expr, *, joins: bool = True) -> bool:
    """Whether what is put behind a path leads to a place below it. `joins`: an absolute path would take its place."""
    texts = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)]
    return not any(".." in text or (joins and text.startswith(("/", "~"))) for text in texts)


def meaning_of(value: object) -> str:
    """The dotted name of a module, function or class; of another value that of its type, where that reaches outside."""
    kind = type(value)
    if issubclass(kind, ModuleType):
        return _text(object.__getattribute__(value, "__dict__").get("__name__"))
    if issubclass(kind, type):
        made = cast("type", value)
        return _qualify(module_name(made), type.__getattribute__(made, "__qualname__"))
    if kind is MethodType:
        return meaning_of(cast("MethodType", value).__func__)
    if kind is BuiltinFunctionType or kind is FunctionType:
        return _function(value)
    named = _qualify(module_name(kind), type.__getattribute__(kind, "__qualname__"))
    if named == "os._Environ":
        return "os.environ"
    if named.startswith("IPython.core.autocall.") and "Exit" in named:  # `exit` and `quit` of a notebook
        return "sys.exit"
    is_quiet = QUIET_TYPES.fullmatch(named.rpartition(".")[2]) or named.startswith("agent_kernel.")
    if named.startswith(("pathlib.", "io.")) or named.endswith("InteractiveShell"):
        return named
    return named if module_kind(named) and not is_quiet else ""


# -- what variables hold that is open


def is_own_place(value: object) -> bool:
    """Whether it is the path of a temporary file or folder of a step, or stands for one."""
    if type(value) is str:
        return is_own(value)
    module = module_name(type(value))
    if module == "pathlib":
        return is_own(os.fspath(cast("os.PathLike[str]", value)))
    named = instance_dict(value).get("name") if module == "tempfile" else ""
    return type(named) is str and is_own(named)


def kind_of_open(value: object) -> str:
    """What somebody who has this value reaches by what is open in it: a file that is written, a connection; "": nothing.

    Writing to what is open already tells no audit event, so nothing stops it as it happens.
    """
    todo: list[object] = [value]
    met: set[int] = set()
    while todo and len(met) < _MOST_HELD:
        one = todo.pop()
        if id(one) in met:
            continue
        met.add(id(one))
        if found := _open_kind(one):
            return found
        if _leads_on(one):
            todo += gc.get_referents(one)
    return ""


def _open_kind(value: Any) -> str:
    kind = type(cast("object", value))
    if id(kind) in _FILES:
        try:
            is_kept = not value.closed and value.writable() and value.fileno() > _LAST_STREAM
            return "files" if is_kept and value.name != os.devnull and not is_own(str(value.name)) else ""
        except (OSError, ValueError, AttributeError):
            return ""
    if derives_from(kind, type) or derives_from(kind, ModuleType):
        return ""
    if derives_from(kind, find_loaded("lmdb", "Environment")):
        return "database"
    named = _qualify(module_name(kind), type.__getattribute__(kind, "__qualname__"))
    is_quiet = QUIET_TYPES.fullmatch(named.rpartition(".")[2]) or named.startswith(_QUIET_OPEN)
    if is_quiet:
        return ""
    if named.startswith(("sqlite3.", "_duckdb.", "duckdb.")):
        return "database" if _DATABASES.fullmatch(named) and not is_in_memory(value) else ""
    root = named.rpartition(".")[0]
    return module_kind(named) or MODULES.get(root.partition(".")[0], "")


def is_mapped(value: object) -> bool:
    """Whether items that are set in it go to a file: one that is mapped to memory, or that holds keys and values."""
    kind = type(value)
    if module_name(kind) in ("mmap", "shelve", "_gdbm", "_dbm", "dbm.dumb"):
        return True
    if derives_from(kind, find_loaded("numpy", "memmap")):
        return instance_dict(value).get("mode") in ("r+", "w+")
    array: Any = find_loaded("numpy", "ndarray")
    base = array.base.__get__(value) if array is not None and derives_from(kind, array) else None  # a view of one
    return base is not None and is_mapped(base)


def _leads_on(value: object) -> bool:
    """Whether what this refers to is what it holds: a container, an object of the notebook's or of Python's own classes."""
    kind = type(value)
    if id(kind) in _CONTAINERS:
        return len(cast("list[object]", value)) <= _MOST_HELD
    module = module_name(kind)
    return id(kind) in _HOLDERS or is_of_notebook(kind) or module.partition(".")[0] in _HOLDING


def _function(value: Any) -> str:
    owner = value.__self__ if type(value) is BuiltinFunctionType else None
    if owner is not None and not issubclass(type(owner), ModuleType):
        return f"{meaning_of(owner) or '…'}.{value.__name__}"
    return _qualify(value.__module__, value.__qualname__)


def _qualify(module: object, name: object) -> str:
    if type(module) is not str or type(name) is not str or module == "__main__":
        return ""
    return _in_front(f"{_BEHIND.get(module, module)}.{name}")


def _in_front(dotted: str) -> str:
    """The name by which people reach what goes by that of a module of compiled code."""
    found = _BEHIND_IN.match(dotted)
    if found is None:
        return dotted
    front = next(filter(None, found.groups()))
    front = f"{front}distributed" if front == "torch." else front
    rest = dotted[found.end() :]
    return f"{front}.{rest}" if rest[:1].isalpha() else f"{front}{rest}"


def _text(found: object) -> str:
    return found if type(found) is str else ""


def _name_of(node: ast.expr) -> str:
    """The name that is looked up; also `globals()['name']`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Subscript(value=held, slice=ast.Constant(value=str() as name)) if is_globals(held):
            return name
        case _:
            return ""


def module_kind(name: str) -> str:
    """What the module reaches that a dotted name begins with, where its name cannot well be a variable's."""
    parts = name.split(".")
    for end in range(len(parts) - 1, 0, -1):
        prefix = ".".join(parts[:end])
        if prefix in MODULES and prefix not in ("sh", "code", "http", "imp", "websocket"):
            return MODULES[prefix]
    return ""


def reaches(dotted: str) -> bool:
    """Whether what goes by this dotted name, or something in it, reaches outside."""
    return (
        dotted in FUNCTIONS
        or dotted in WHOLE_MODULES
        or dotted == "pathlib"
        or dotted in MODULES
        or bool(module_kind(dotted))
    )


def is_getattr(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "getattr"
        and len(node.args) > 1
        and (not isinstance(node.args[1], ast.Constant) or isinstance(node.args[1].value, str))
    )


def entry_of(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """What an entry of an object's own names is taken from, and its name: `vars(thing)[name]`. None for other expressions."""
    match node:
        case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"), args=[held]), slice=name):
            return held, name
        case _:
            return None


def is_globals(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("globals", "vars", "locals")
    )


# -- what is open already and reached without its name: by functions of the notebook, by modules of the user's, by loggers
#
# Writing to what is open tells no audit event, so it is found by looking: at what a function of the notebook names, at what
# a module holds that no package installed, at what `logging` writes to. What only reads is passed over.

_MOST: Final = 300  # functions that are looked at for one name
_REGISTERS: Final = frozenset({"handlers", "_handlers", "_handlerList"})  # where `logging` keeps what it writes to


def kind_reached(value: object, attribute: str = "") -> str:
    """What using a value writes to by the functions of the notebook that it is, has or calls; "": nothing that is open.

    Args:
        attribute: of the value, that alone is used. "": whatever it has.
    """
    todo: list[object] = [value]
    met: set[int] = set()
    while todo and len(met) < _MOST:
        one = todo.pop()
        if id(one) in met:
            continue
        met.add(id(one))
        for function in _functions_of(one, attribute if one is value else ""):
            for held, is_written in _find_used_values(function):
                if is_written and (kind := kind_of_open(held)):
                    return kind
                todo.append(held)
    return ""


def _functions_of(value: Any, attribute: str = "") -> Iterator[FunctionType]:
    """The functions of the notebook's or of a module of the user's that run where somebody uses this value, or that of it."""
    kind = type(cast("object", value))
    if kind is FunctionType:
        if not is_library(exact_str(value.__module__)):
            yield value
    elif kind is MethodType:
        yield from _functions_of(value.__func__)
    elif kind is functools.partial:
        yield from _functions_of(functools.partial.func.__get__(value))
    elif (wrapped := instance_dict(value).get("__wrapped__")) is not None:
        yield from _functions_of(wrapped)
    else:
        classes = bases_of(cast("type", value)) if derives_from(kind, type) else bases_of(kind)
        members = [item for one in classes if is_of_notebook(one) for item in class_dict(one).items()]
        names = {attribute} if any(name == attribute for name, _ in members) else {name for name, _ in members}
        before = 0
        while len(names) > before:  # methods call others
            before = len(names)
            functions = (each for name, found in members if name in names for each in _bare(found))
            names = names.union(*(each.__code__.co_names for each in functions))
        for name, member in members:
            yield from _bare(member) if name in names else ()


def _bare(member: Any) -> Iterator[FunctionType]:
    """The function of a method, a static one or a property."""
    found: list[object] = [member]
    if type(member) is staticmethod or type(member) is classmethod:
        found = [cast("Any", member).__func__]
    elif type(member) is property:
        found = [member.fget, member.fset]
    yield from (one for one in found if type(one) is FunctionType)


def _find_used_values(function: FunctionType) -> Iterator[tuple[object, bool]]:
    """What a function names and holds, and whether it may write to it."""
    module_names: Mapping[str, object] = function.__globals__
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    captured = {name: _content(cell) for name, cell in cells}
    for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield default, True
    for code in find_nested_codes(function.__code__):
        for name, is_written in _uses(code):
            if name in captured or name in module_names:
                yield captured[name] if name in captured else module_names[name], is_written


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _uses(code: CodeType) -> Iterator[tuple[str, bool]]:
    """The names that code looks up outside itself, and whether it does more with each than to read."""
    steps = list(dis.get_instructions(code))
    asks = any(READS.fullmatch(name) for name in code.co_names) and not any(
        SQL_WRITES.search(text) for text in code.co_consts if type(text) is str
    )
    for at, step in enumerate(steps):
        if step.opname not in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
            continue
        following = steps[at + 1] if at + 1 < len(steps) else step
        if following.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            yield step.argval, not asks
        else:
            argument = steps[at + 2].argval if at + 2 < len(steps) else None
            yield step.argval, not _reads(following.argval, argument)


def _reads(method: str, argument: object) -> bool:
    """Whether a method of what is open only reads. `argument`: what it is given first, where that is written there."""
    if method not in STATEMENTS:
        return method in READ_OF_OPEN
    if type(argument) is not str:
        return False
    return bool(SQL_READS.match(argument)) and not (SQL_WRITES.search(argument) or SQL_LEAVES.search(argument))


# -- modules


def find_in_modules(dotted: str) -> object | None:
    """What a dotted name stands for in a loaded module that no package installed; None: nothing."""
    parts = dotted.split(".")
    if parts[0] not in sys.modules or parts[0] == "__main__" or is_library(parts[0]):
        return None
    found: object = sys.modules[parts[0]]
    for name in parts[1:]:
        entries = module_dict(found) if derives_from(type(found), ModuleType) else instance_dict(found)
        if name not in entries:
            return found
        found = entries[name]
    return None if derives_from(type(found), ModuleType) else found


def kind_of_register(attribute: str) -> str:
    """What somebody reaches by an attribute under which `logging` keeps its handlers; "": nothing that is open."""
    logging: Any = sys.modules.get("logging")
    if attribute not in _REGISTERS or logging is None:
        return ""
    handlers = [found for one in list(logging._handlerList) if (found := one()) is not None]
    open_ones = (kind_of_open(target) for one in handlers for target in instance_dict(one).values())
    return next(filter(None, open_ones), "")
