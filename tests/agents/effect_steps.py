"""Steps that act outside the variables by unusual ways: each in a folder with the files `victim` and `rows.csv`."""

from __future__ import annotations

from typing import Final

__all__ = [
    "AT_LIBRARIES",
    "BY_LIBRARIES",
    "COMPILED",
    "EFFECTS",
    "MORE_EFFECTS",
    "ON_OPEN",
    "OPEN",
    "PREPARED",
    "UNSEEN",
]

PREPARED: Final = """
import pandas as pd, numpy as np, os, io, pathlib
df = pd.DataFrame({"a": [1, 2], "b": [3.0, 4.0]})
array = np.arange(4)
place = pathlib.Path("out")
victim = pathlib.Path("victim")
"""

_TEXT: Final = """
built in: open('out', 'w').write('x')
appending: open('victim', 'a').write('x')
reading and writing: open('victim', 'r+').write('x')
exclusive: open('out', 'x')
by a list: [f('out', 'w') for f in [open]]
by map: list(map(open, ['out'], ['w']))
by partial: import functools; functools.partial(open, 'out')('w')
by reduce: import functools; functools.reduce(lambda f, a: f(a, 'w'), ['out'], open)
by getattr: getattr(__import__('builtins'), 'op' + 'en')('out', 'w')
by a dict: {'f': open}['f']('out', 'w')
by the builtins of a function: (lambda: 0).__globals__['__builtins__']['open']('out', 'w')
by subclasses: deep = lambda c: [c] + [d for s in c.__subclasses__() for d in deep(s)]\\n[c for c in deep(io._io._IOBase) if c.__name__ == 'FileIO'][0]('out', 'w')
by an exec of a text: exec("op" "en('out', 'w')")
by an eval of a text: eval("op" "en('out', 'w')")
by a compiled text: exec(compile("open('out', 'w')", 'x', 'exec'))
by a code object: import types; types.FunctionType(compile("open('out', 'w')", 'x', 'exec'), globals())()
by a class: type('C', (), {'__init__': lambda self: open('out', 'w') and None})()
by a descriptor: type('C', (), {'x': property(lambda self: open('out', 'w'))})().x
by a key of sorting: sorted([1, 2], key=lambda n: open('out', 'w') and n)
by a repr: repr(type('C', (), {'__repr__': lambda self: str(open('out', 'w'))})())
by a deletion: x = type('C', (), {'__del__': lambda self: open('out', 'w')})(); del x
by a generator: next(open('out', 'w') for _ in [1])
by a context: import contextlib; contextlib.ExitStack().enter_context(open('out', 'w'))
by a callback: import contextlib; contextlib.ExitStack().callback(open, 'out', 'w') and None; s = contextlib.ExitStack(); s.callback(open, 'out', 'w'); s.close()
by apply of a table: df.apply(lambda row: open('out', 'w') and 1, axis=1)
by map of a column: df['a'].map(lambda n: place.write_text('x'))
by vectorize: np.vectorize(lambda n: place.write_text('x'))(array)
by a thread: import threading; t = threading.Thread(target=open, args=('out', 'w')); t.start(); t.join()
by a bare thread: import _thread, time; _thread.start_new_thread(open, ('out', 'w')); time.sleep(0.2)
by a pool of threads: from concurrent.futures import ThreadPoolExecutor as P; P(1).submit(open, 'out', 'w').exception()
by a timer: import threading; t = threading.Timer(0.01, open, ('out', 'w')); t.start(); t.join()
by a coroutine: import asyncio; loop = asyncio.new_event_loop(); loop.run_until_complete(loop.run_in_executor(None, open, 'out', 'w'))
by a coroutine's thread: import asyncio; asyncio.run(asyncio.to_thread(open, 'out', 'w'))
by a handler: try:\\n    place.write_text('x')\\nexcept BaseException:\\n    pass
os.open: os.close(os.open('out', os.O_WRONLY | os.O_CREAT))
posix: import posix; posix.open('out', os.O_WRONLY | os.O_CREAT)
FileIO: io.FileIO('out', 'w')
io.open: io.open('out', 'w')
codecs: import codecs; codecs.open('out', 'w', encoding='utf-8')
a path: place.write_text('x')
a path's bytes: pathlib.Path.write_bytes(place, b'x')
touch: place.touch()
mkdir: place.mkdir()
makedirs: os.makedirs('out/deep')
unlink: victim.unlink()
os.remove: getattr(os, 'rem' + 'ove')('victim')
os.unlink through a list: list(map(os.unlink, ['victim']))
rename: victim.rename('out')
os.replace: os.replace('victim', 'out')
truncate: os.truncate('victim', 0)
chmod: victim.chmod(0o600)
utime: os.utime('victim', (1, 1))
a link: place.symlink_to('victim')
a hard link: os.link('victim', 'out')
a pipe: os.mkfifo('out')
an attribute: os.setxattr('victim', 'user.x', b'x')
rmtree: os.mkdir; import shutil; shutil.rmtree(os.getcwd())
copy: import shutil; shutil.copy('victim', 'out')
copytree: import shutil; shutil.copytree(os.getcwd(), 'out')
move: import shutil; shutil.move('victim', 'out')
an archive: import shutil; shutil.make_archive('out', 'zip', '.', 'victim')
beside a folder: fd = os.open('.', os.O_RDONLY); os.mkdir('out', dir_fd=fd)
beside a folder, deleting: fd = os.open('.', os.O_RDONLY); os.remove('victim', dir_fd=fd)
a table: df.to_csv('out')
a table by another name: f = df.to_csv; f('out')
a table by its class: pd.DataFrame.to_csv(df, 'out')
a pickle of a table: df.to_pickle('out')
json of a table: df.to_json('out')
parquet of a table: df.to_parquet('out')
excel's xml of a table: df.to_html('out')
np.save: np.save('out', array)
np.savetxt: np.savetxt('out', array)
np.savez: np.savez('out', array)
tofile: array.tofile('out')
memmap: np.memmap('out', dtype='uint8', mode='w+', shape=(4,))
pickle: import pickle; pickle.dump(1, open('out', 'wb'))
json: import json; json.dump(1, open('out', 'w'))
joblib: import joblib; joblib.dump(1, 'out')
torch: import torch; torch.save(torch.ones(2), 'out')
a figure: import matplotlib.figure; matplotlib.figure.Figure().savefig('out.png')
a picture: from PIL import Image; Image.new('RGB', (2, 2)).save('out.png')
xml: import xml.etree.ElementTree as E; E.ElementTree(E.Element('a')).write('out')
csv: import csv; csv.writer(open('out', 'w')).writerow([1])
a zip: import zipfile; zipfile.ZipFile('out', 'w').writestr('a', 'x')
a tar: import tarfile; tarfile.open('out', 'w').close()
gzip: import gzip; gzip.open('out', 'w').write(b'x')
shelve: import shelve; shelve.open('out')
dbm: import dbm.dumb; dbm.dumb.open('out', 'c').close()
sqlite: import sqlite3; sqlite3.connect('out').execute('create table a (b)')
sqlite, attached: import sqlite3; sqlite3.connect(':memory:').execute("attach 'out' as o")
sqlite, a backup: import sqlite3; sqlite3.connect(':memory:').execute("vacuum into 'out'")
a log: import logging; logging.FileHandler('out')
a log that turns: import logging.handlers; logging.handlers.RotatingFileHandler('out')
logging by default: import logging; logging.basicConfig(filename='out', force=True)
print: print('x', file=open('out', 'w'))
stdout: import sys; sys.stdout = open('out', 'w')
redirected: import contextlib; contextlib.redirect_stdout(open('out', 'w'))
a compiled module: import py_compile; py_compile.compile('victim', cfile='out', doraise=False)
a trace: import faulthandler; faulthandler.dump_traceback(open('out', 'w'))
a profile: import cProfile; p = cProfile.Profile(); p.enable(); p.disable(); p.dump_stats('out')
config: import configparser; configparser.ConfigParser().write(open('out', 'w'))
a module of its own: victim.rename('evil.py')
a temporary file that stays elsewhere: import tempfile; tempfile.mkstemp(dir='.')
a mailbox: import mailbox; mailbox.mbox('out').flush(); mailbox.Maildir('out')
subprocess: import subprocess; subprocess.run(['touch', 'out'])
Popen: import subprocess; getattr(subprocess, 'Po' + 'pen')(['touch', 'out']).wait()
in library code: import pydoc; pydoc.pipepager('x', 'cat > out')
a shell: os.system('touch out')
popen: os.popen('touch out').read()
spawn: os.spawnlp(os.P_WAIT, 'touch', 'touch', 'out')
posix_spawn: os.waitpid(os.posix_spawnp('touch', ['touch', 'out'], os.environ), 0)
fork: os.fork() or os._exit(0)
a terminal: import pty; pty.spawn(['touch', 'out'])
a process: import multiprocessing as m; p = m.Process(target=open, args=('out', 'w')); p.start(); p.join()
a process that is spawned: import multiprocessing as m; p = m.get_context('spawn').Process(target=open, args=('out', 'w')); p.start(); p.join()
a pool: import multiprocessing as m; m.Pool(1).map(open, ['out'])
a pool of futures: from concurrent.futures import ProcessPoolExecutor as P; P(1).submit(os.mkdir, 'out').exception()
workers of joblib: from joblib import Parallel, delayed; Parallel(n_jobs=2)(delayed(os.mkdir)(name) for name in ['out', 'out2'])
asyncio's processes: import asyncio\\nasync def go():\\n    p = await asyncio.create_subprocess_exec('touch', 'out')\\n    await p.wait()\\nasyncio.run(go())
low level: import _posixsubprocess; import multiprocessing.util as u; u.spawnv_passfds(b'/usr/bin/touch', [b'touch', b'out'], [])
a signal: os.kill(os.getppid(), 0)
the end: os._exit(0)
a connection: import socket; socket.create_connection(('127.0.0.1', 9))
connect_ex: import socket; socket.socket().connect_ex(('127.0.0.1', 9))
udp: import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 9))
listening: import socket; socket.socket().bind(('127.0.0.1', 0))
listening to all: import socket; socket.socket().listen()
listening to all by its class: import socket; socket.socket.listen(socket.socket(socket.AF_INET6), 1)
a name: import socket; socket.getaddrinfo('rows.example.invalid', 80)
the name of an address: import socket; socket.gethostbyaddr('192.0.2.1')
the name of an address and a port: import socket; socket.getnameinfo(('192.0.2.1', 80), 0)
the full name of an address: import socket; socket.getfqdn('192.0.2.1')
urllib: import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')
requests: import requests; requests.get('http://127.0.0.1:9/')
http: import http.client; http.client.HTTPConnection('127.0.0.1', 9).request('GET', '/')
a table from the web: pd.read_csv('http://127.0.0.1:9/x.csv')
asyncio's connection: import asyncio; asyncio.run(asyncio.open_connection('127.0.0.1', 9))
mail: import smtplib; smtplib.SMTP('127.0.0.1', 9)
a socket of Unix: import socket; socket.socket(socket.AF_UNIX).bind('out')
a browser: import webbrowser; webbrowser.GenericBrowser('touch').open('out')
environment: os.environ['AGENT_KERNEL_TEST'] = 'x'
putenv: os.putenv('AGENT_KERNEL_TEST', 'x')
a folder: os.chdir('/')
a limit: import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
open files: os.closerange(900, 1000)
another file under a number: os.dup2(os.open('victim', os.O_RDONLY), os.open('victim', os.O_RDONLY))
the clock: import time; time.clock_settime(time.CLOCK_REALTIME, time.time())
a hook: import sys; sys.addaudithook(lambda *a: None)
C: import ctypes; ctypes.CDLL(None).mkdir(b'out', 0o777)
C by a library: lib = next(line.split()[-1] for line in open('/proc/self/maps') if '/libc.so' in line or '/libc-' in line); np.ctypeslib.load_library(*reversed(os.path.split(lib))).mkdir(b'out', 0o777)
C of Python: import ctypes; ctypes.pythonapi.Py_IsInitialized()
a signal by a number: import signal; signal.signal(signal.SIGUSR1, lambda *_: None); signal.pidfd_send_signal(os.pidfd_open(os.getpid()), signal.SIGUSR1)
a signal to itself: import signal; signal.signal(signal.SIGUSR1, lambda *_: None); signal.raise_signal(signal.SIGUSR1)
an alarm: import signal; signal.alarm(1000)
a history of lines: import readline; readline.write_history_file('out')
a process without a name: import subprocess as s; s._fork_exec([b'touch', b'out'], [b'/usr/bin/touch'], True, (), None, None, -1, -1, -1, -1, -1, -1, -1, -1, False, False, -1, None, None, None, -1, None, True)
shared memory: import multiprocessing.shared_memory as m; m.SharedMemory(create=True, size=10).unlink()
the log of the system: import syslog; syslog.syslog('x')
pyarrow: import pyarrow as pa, pyarrow.parquet as p; f = p.write_table; f(pa.table({'a': [1]}), 'out')
polars: import polars as pl; f = getattr(pl.DataFrame({'a': [1]}), 'write_' + 'csv'); f('out')
duckdb: import duckdb; duckdb.sql("co" + "py (select 1) to 'out'")
"""

EFFECTS: Final[dict[str, str]] = {
    name: code.replace("\\n", "\n") for name, _, code in (line.partition(": ") for line in _TEXT.strip().splitlines())
}

# What is open in variables, and steps that write to it: no audit event tells of that.
OPEN: Final = """
import csv, functools, gzip, http.client, io, mmap, multiprocessing, os, shelve, socket, sqlite3, subprocess, sys, zipfile
import numpy as np, pandas as pd, duckdb
df, array = pd.DataFrame({"a": [1, 2]}), np.arange(4)
log, binary = open("log", "w"), open("binary", "wb")
rows, handles, list_of, say = csv.writer(log), {"log": log}, [log], functools.partial(print, file=log)
class Job: pass
job = Job()
job.log = log
number = os.open("by_number", os.O_WRONLY | os.O_CREAT)
base = sqlite3.connect("base.db")
base.execute("create table t (a)")
cursor = base.cursor()
sock, peer = socket.socketpair()
stream = sock.makefile("wb")
web = http.client.HTTPConnection("localhost", 9)
mapped = np.memmap("mapped", "uint8", "w+", shape=(4,))
paged = mmap.mmap(-1, 4)
packed, zipped, shelf = zipfile.ZipFile("packed", "w"), gzip.open("zipped", "wb"), shelve.open("shelf")
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
near, far = multiprocessing.Pipe()
shared = multiprocessing.Queue()
import logging, types
book = logging.Logger("book")
book.addHandler(logging.FileHandler("book"))
def note(text): log.write(text)
def noted(text): return note(text)
def add(n): base.execute("insert into t values (?)", (n,))
def peek(): return cursor.execute("select * from t").fetchall(), log.name, pd.read_sql("select 1", base)
def keeper():
    kept = log
    return lambda text: kept.write(text)
kept = keeper()
class Notes:
    def put(self, text): log.write(text)
    def count(self): return 1
    def both(self): return self.count() + 1
    def deep(self): return self.put("x")
    @property
    def last(self): return log.write("x")
notes = Notes()
own = types.ModuleType("agent_kernel_test_own")
sys.modules[own.__name__] = own
exec("log = open('own', 'w')", vars(own))
exec("def note(text): log.write(text)", vars(own))
exec("def half(n): return n / 2", vars(own))
duck = duckdb.connect("duck.db")
"""

_ON_OPEN: Final = """
held write: log.write('x'); log.flush()
held print: print('x', file=log, flush=True)
held json: import json; json.dump({}, log)
held csv: rows.writerow([1])
held in dict: handles['log'].write('x')
held in list loop: for h in list_of: h.write('x')
held by map: list(map(log.write, ['x']))
held alias: f = log; f.writelines(['x'])
held getattr: getattr(log, 'wri' + 'te')('x')
held in attribute: job.log.write('x')
held buffer: binary.raw.write(b'x')
held pickle: import pickle; pickle.Pickler(binary).dump(1)
held np.save: np.save(binary, array)
held to_csv: df.to_csv(log)
held copy: import shutil; shutil.copyfileobj(io.StringIO('x'), log)
held fd: os.write(log.fileno(), b'x')
held number: os.write(number, b'x')
held truncate: log.truncate(0)
held partial: say('x')
cursor delete: cursor.execute('DELETE FROM t')
cursor many: cursor.executemany('insert into t values (?)', [(1,)])
cursor getattr: getattr(cursor, 'exe' + 'cute')('DELETE FROM t')
cursor by map: list(map(cursor.execute, ['DELETE FROM t']))
connection in list: [base][0].execute('DELETE FROM t')
connection to_sql: df.to_sql('u', base)
connection script: base.executescript('drop table t')
connection with: with base: base.execute('insert into t values (3)')
connection text built: q = 'DEL' + 'ETE FROM t'; base.execute(q)
connection read_sql: pd.read_sql('delete from t returning a', base)
backup: import sqlite3; sqlite3.connect(':memory:').backup(base)
socket send: sock.send(b'x')
socket in dict: {'s': sock}['s'].sendall(b'x')
socket file: stream.write(b'x'); stream.flush()
http held: web.request('GET', '/')
memmap held: mapped[0] = 9; mapped.flush()
mmap held: paged[0:1] = b'X'; paged.flush()
zip held: packed.writestr('a', 'x')
gzip held: zipped.write(b'x')
shelve held: shelf['a'] = 1; shelf.sync()
process held: child.stdin.write(b'x'); child.stdin.flush()
process kill: child.kill()
pipe held: near.send('x')
queue of processes: shared.put(1)
duckdb held: duck.execute('insert into t values (3)')
duckdb relation create: duck.sql('select 5 as a').insert_into('t')
by a function: note('x')
by a function of a function: noted('x')
by a function that is handed on: list(map(note, ['x']))
by a function of the code's own: f = lambda: note('x'); f()
by a partial of a function: import functools; functools.partial(note, 'x')()
by a function with a statement: add(3)
by a closure: kept('x')
by a method: notes.put('x')
by a method of a method: notes.deep()
by a class: Notes().put('x')
by a property: notes.last
by a module: import agent_kernel_test_own; agent_kernel_test_own.log.write('x')
by a function of a module: import agent_kernel_test_own as m; m.note('x')
by what a module gives: from agent_kernel_test_own import note as n; n('x')
by all that a module gives: from agent_kernel_test_own import *; globals()['no' + 'te']('x')
by the logger's handlers: book.handlers[0].stream.write('x')
by the register of logs: import logging; logging._handlerList[-1]().stream.write('x')
by globals: globals()['l' + 'og'].write('x')
by a text of globals: globals()['log'].write('x')
by the values of globals: [one for one in globals().values() if hasattr(one, 'write')][0].write('x')
by vars: there = vars(); there['l' + 'og'].write('x')
by globals that is printed to: print('x', file=globals().get('l' + 'og'))
"""

ON_OPEN: Final[dict[str, str]] = {
    name: code for name, _, code in (line.partition(": ") for line in _ON_OPEN.strip().splitlines())
}

# Further ones, by libraries and at other times than the step's own.
MORE_EFFECTS: Final[dict[str, str]] = {
    "to_csv alias": "save = df.to_csv\nsave('out')",
    "to_pickle": "pd.to_pickle(df, 'out')",
    "to_excel-less to_stata": "df.to_stata('out')",
    "ExcelWriter csv": "df.to_xml('out', parser='etree')",
    "httpx": "import httpx\nhttpx.get('http://127.0.0.1:9/')",
    "httpx async": "import httpx, asyncio\nasync def go():\n    async with httpx.AsyncClient() as c:\n        await c.get('http://127.0.0.1:9/')\nasyncio.run(go())",
    "urllib3": "import urllib3\nurllib3.PoolManager(retries=False).request('GET','http://127.0.0.1:9/')",
    "requests session": "import requests\ns = requests.Session()\ngetattr(s, 'po'+'st')('http://127.0.0.1:9/', data='x')",
    "ftplib": "import ftplib\nftplib.FTP('127.0.0.1')",
    "imaplib": "import imaplib\nimaplib.IMAP4('127.0.0.1', 9)",
    "telnet socket ipv6": "import socket\nsocket.socket(socket.AF_INET6).connect(('::1', 9))",
    "socketserver": "import socketserver\nsocketserver.TCPServer(('127.0.0.1', 0), None)",
    "http server": "import http.server\nhttp.server.HTTPServer(('127.0.0.1', 0), http.server.BaseHTTPRequestHandler)",
    "logging http": "import logging.handlers\nlogging.handlers.DatagramHandler('127.0.0.1', 9).emit(logging.makeLogRecord({'msg':'x'}))",
    "subprocess getoutput": "import subprocess\nsubprocess.getoutput('touch out')",
    "shlex popen": "import subprocess, shlex\nf = subprocess.__dict__['Po'+'pen']\nf(shlex.split('touch out')).wait()",
    "os.execv fork": "import os\np = os.posix_spawn('/usr/bin/touch', ['touch','out'], {})\nos.waitpid(p, 0)",
    "multiprocessing pool imap": "import multiprocessing as m\nwith m.Pool(1) as p: list(p.imap(os.mkdir, ['out']))",
    "multiprocessing manager": "import multiprocessing as m\nm.Manager()",
    "ctypes write": "import ctypes\nctypes.CDLL(None).creat(b'out', 0o666)",
    "ctypes pythonapi": "import ctypes\nctypes.pythonapi.PyRun_SimpleString(b\"open('out','w')\")",
    "cffi": "import cffi\nf = cffi.FFI(); f.cdef('int mkdir(const char*, int);'); f.dlopen(None).mkdir(b'out', 0o777)",
    "mmap file": "import mmap, os\nfd = os.open('victim', os.O_RDWR)\nm = mmap.mmap(fd, 0); m[0:1] = b'y'; m.flush()",
    "signal": "import signal, os\nsignal.signal(signal.SIGUSR1, lambda *_: None)\nos.kill(os.getpid(), signal.SIGUSR1)",
    "webbrowser": "import webbrowser\nwebbrowser.get('true').open('http://x')",
    "exec built": "exec('im'+'port os; os.mk'+'dir(\"out\")')",
    "decorator": "def d(f):\n    open('out','w')\n    return f\n@d\ndef g(): pass",
    "class body": "class C:\n    f = open('out','w')",
    "default arg": "def g(f=open('out','w')): pass",
    "metaclass": "class M(type):\n    def __init__(c,*a): open('out','w')\nclass C(metaclass=M): pass",
    "init_subclass": "class B:\n    def __init_subclass__(c): open('out','w')\nclass C(B): pass",
    "set_name": "class D:\n    def __set_name__(s,o,n): open('out','w')\nclass C:\n    x = D()",
    "getattr hook": "class C:\n    def __getattr__(s,n): return open(n,'w')\nC().out",
    "del later": "class C:\n    def __del__(s): open('out','w')\nc = C()\nc = None\nimport gc; gc.collect()",
    "del kept": "import atexit\nclass C: pass\nC.__del__ = lambda s: open('out','w') and None\nlater = C()",
    "atexit": "import atexit\natexit.register(open, 'out', 'w')",
    "timer later": "import threading\nt = threading.Timer(0.3, lambda: open('out','w'))\nt.start()",
    "thread later": "import threading, time\ndef go():\n    time.sleep(0.3)\n    open('out','w')\nthreading.Thread(target=go).start()",
    "executor later": "from concurrent.futures import ThreadPoolExecutor as P\nimport time\npool = P(1)\npool.submit(lambda: (time.sleep(0.3), open('out','w')))",
    "asyncio later": "import asyncio\nloop = asyncio.new_event_loop()\nloop.call_later(0.1, open, 'out', 'w')\nimport threading\nthreading.Thread(target=loop.run_until_complete, args=(asyncio.sleep(0.3),)).start()",
    "weakref finalize": "import weakref\nclass C: pass\nc = C()\nf = weakref.finalize(c, open, 'out', 'w')\ndel c",
    "weakref callback": "import weakref\nclass C: pass\nc = C()\nr = weakref.ref(c, lambda _: open('out','w'))\ndel c",
    "weakref callback later": "import weakref\nkeep = df\nr = weakref.ref(keep, lambda _: open('out','w'))",
    "generator close": "def g():\n    try: yield\n    finally: open('out','w')\nx = g(); next(x); x.close()",
    "generator later": "def g():\n    try: yield\n    finally: open('out','w')\nx = g(); next(x)",
    "gc callback": "import gc\ngc.callbacks.append(lambda *a: open('out','w'))\ngc.collect()",
    "gc callback later": "import gc\ngc.callbacks.append(lambda *a: open('out','w').close())",
    "import hook": "import sys\nclass F:\n    def find_spec(s,n,p=None,t=None): open('out','w')\nsys.meta_path.insert(0, F())\ntry:\n    import nothing_here\nexcept ImportError: pass",
    "path hook": "import sys\nsys.path_hooks.append(lambda p: open('out','w'))\nsys.path.append('/nowhere')\nsys.path_importer_cache.clear()\ntry:\n    import nothing_here2\nexcept ImportError: pass",
    "display hook": "import sys\nsys.displayhook = lambda v: open('out','w')",
    "excepthook": "import sys\nsys.excepthook = lambda *a: open('out','w')",
    "settrace": "import sys\nsys.settrace(lambda *a: open('out','w') and None)\ndef f(): pass\nf()",
    "setprofile later": "import sys\nsys.setprofile(lambda *a: open('out','w') and None)",
    "monkeypatch open": "import builtins\nbuiltins.open = lambda *a: 1",
    "monkeypatch pandas": "pd.DataFrame.head = lambda s, n=5: open('out','w')",
    "shutil copyfileobj": "import shutil\nshutil.copyfileobj(io.StringIO('x'), open('out','w'))",
    "shutil unpack": "import shutil\nshutil.unpack_archive('victim', '.', 'zip')",
    "zip extract": "import zipfile, io\nb = io.BytesIO()\nz = zipfile.ZipFile(b,'w'); z.writestr('out','x'); z.close()\nf = getattr(zipfile.ZipFile(b), 'extract'+'all')\nf('.')",
    "tar extract": "import tarfile, io\nb = io.BytesIO()\nt = tarfile.open(fileobj=b, mode='w'); i = tarfile.TarInfo('out'); t.addfile(i); t.close(); b.seek(0)\nf = tarfile.open(fileobj=b).__class__.__dict__['extract'+'all']\nf(tarfile.open(fileobj=b), '.')",
    "os.replace": "import os\n[f for n, f in vars(os).items() if n == 'rep'+'lace'][0]('victim','out')",
    "os.removedirs": "os.mkdir('d1'); os.removedirs('d1')",
    "pathlib hardlink": "pathlib.Path('out').hardlink_to('victim')",
    "pathlib replace": "victim.replace('out')",
    "pathlib open": "victim.open('a').write('x')",
    "os.open dir_fd": "import os\nd = os.open('.', os.O_RDONLY)\nos.open('out', os.O_CREAT|os.O_WRONLY, dir_fd=d)",
    "tempfile dir": "import tempfile\ntempfile.NamedTemporaryFile(dir='.', delete=False)",
    "tempdir changed": "import tempfile\ntempfile.tempdir = '.'\ntempfile.NamedTemporaryFile(delete=False)",
    "sqlite file": "import sqlite3\nf = sqlite3.connect\nf('out').execute('create table a(b)')",
    "sqlite uri": "import sqlite3\nsqlite3.connect('file:out?mode=rwc', uri=True).execute('create table a(b)')",
    "sqlalchemy": "import sqlalchemy as s\ns.create_engine('sqlite:///out').connect().execute(s.text('create table a(b)'))",
    "np.savez": "np.savez_compressed('out.npz', array)",
    "np open_memmap": "np.lib.format.open_memmap('out', 'w+', 'u1', (4,))",
    "pickle file": "import pickle\npickle.dump(df, pathlib.Path('out').open('wb'))",
    "plt savefig": "import matplotlib; matplotlib.use('Agg')\nimport matplotlib.pyplot as plt\nplt.plot([1]); f = plt.gcf(); getattr(f, 'save'+'fig')('out.png')",
    "plt imsave": "import matplotlib.image as m\nm.imsave('out.png', np.zeros((2,2)))",
    "joblib Memory": "import joblib\nm = joblib.Memory('.', verbose=0)\nm.cache(len)([1])",
    "torch hub": "import torch\ntorch.save({'a':1}, 'out')",
    "yaml dump": "import yaml\nyaml.dump({'a':1}, open('out','w'))",
    "csv writer": "import csv\nwith open('out','w') as f: csv.writer(f).writerow([1])",
    "json dump": "import json\njson.dump({}, open('out','w'))",
    "env pop": "os.environ.pop('HOME')",
    "locale": "import time, os\nos.environ['TZ'] = 'UTC'\ntime.tzset()",
    "umask": "os.umask(0o77)",
    "nice": "os.nice(1)",
    "chroot": "os.chroot('/')",
    "sysexit": "import sys\nsys.exit(3)",
    "kill children": "import os, signal\nos.killpg(os.getpgid(0), 0)",
    "ipc shm": "from multiprocessing import shared_memory\ns = shared_memory.SharedMemory(name='agk_probe', create=True, size=8)\ns.close(); s.unlink()",
    "posix sem": "import _multiprocessing\n_multiprocessing.SemLock(0, 1, 1, '/agk_sem', True)",
    "bytecode": "import types\nc = (lambda: 0).__code__.replace(co_consts=(None,))\ntypes.FunctionType(compile(\"open('out','w')\",'x','exec'), {'__builtins__': __builtins__})()",
    "codecs open": "import codecs\nvars(codecs)['op'+'en']('out','w')",
    "dbm": "import dbm\ndbm.open('out','n')",
    "zipapp": "import zipapp, os\nvars(zipapp)['create_archive']('.', io.BytesIO(), main='a:b')\nopen('out','w')",
    "pydoc": "import pydoc\npydoc.writedoc('json')",
    "compileall": "import compileall\ncompileall.compile_dir('.', quiet=1, force=True)",
    "tracemalloc": "import tracemalloc\ntracemalloc.start(); tracemalloc.take_snapshot().dump('out')",
    "cprofile": "import cProfile\ncProfile.runctx('1', {}, {}, 'out')",
    "readline": "import readline\nreadline.write_history_file('out')",
    "polars sink": "import polars as pl\npl.LazyFrame({'a':[1]}).sink_csv('out')",
    "polars write": "import polars as pl\npl.DataFrame({'a':[1]}).write_parquet('out')",
    "duckdb copy": "import duckdb\nduckdb.sql(\"copy (select 1) to 'out'\")",
    "arrow csv": "import pyarrow as pa, pyarrow.csv as c\nc.write_csv(pa.table({'a':[1]}), 'out')",
}

# By compiled code of libraries, which opens files and connections without Python: named so that no reader of code finds it.
COMPILED: Final[dict[str, str]] = {
    "arrow fs stream": "import pyarrow.fs as f\ngetattr(f.LocalFileSystem(), 'open_'+'output_stream')('out').close()",
    "arrow fs mkdir": "import pyarrow.fs as f\ngetattr(f.LocalFileSystem(), 'create'+'_dir')('out')",
    "arrow fs delete": "import pyarrow.fs as f\ngetattr(f.LocalFileSystem(), 'delete'+'_file')('victim')",
    "arrow fs move": "import pyarrow.fs as f\ngetattr(f.LocalFileSystem(), 'mo'+'ve')('victim', 'out')",
    "arrow fs copy": "import pyarrow.fs as f\ngetattr(f, 'copy_'+'files')('victim', 'out')",
    "arrow fs from uri": "import pyarrow.fs as f\ng, p = f.FileSystem.from_uri('file://'+os.path.abspath('out'))\ngetattr(g, 'open_append'+'_stream')(p).close()",
    "arrow OSFile": "import pyarrow as pa\ngetattr(pa, 'OS'+'File')('out', 'w').close()",
    "arrow OSFile mode word": "import pyarrow as pa\ngetattr(pa, 'OS'+'File')('out', mode='wb').close()",
    "arrow lib OSFile": "import pyarrow.lib as l\nvars(l)['OS'+'File']('out', 'w').close()",
    "arrow output_stream": "import pyarrow as pa\ngetattr(pa, 'output'+'_stream')('out').close()",
    "arrow memory map": "import pyarrow as pa\ngetattr(pa, 'create_memory'+'_map')('out', 10)",
    "arrow memory map rw": "import pyarrow as pa\ngetattr(pa, 'memory'+'_map')('victim', 'r+').write(b'y')",
    "arrow ipc file": "import pyarrow as pa\nw = getattr(pa.ipc, 'new_'+'file')('out', pa.schema([]))\nw.close()",
    "arrow ipc stream": "import pyarrow as pa\nw = getattr(pa.ipc, 'new_'+'stream')('out', pa.schema([]))\nw.close()",
    "arrow feather": "import pyarrow as pa, pyarrow.feather as f\ngetattr(f, 'write_'+'feather')(pa.table({'a':[1]}), 'out')",
    "arrow orc": "import pyarrow as pa, pyarrow.orc as f\ngetattr(f, 'write_'+'table')(pa.table({'a':[1]}), 'out')",
    "arrow dataset": "import pyarrow as pa, pyarrow.dataset as f\ngetattr(f, 'write_'+'dataset')(pa.table({'a':[1]}), 'out', format='parquet')",
    "arrow parquet writer": "import pyarrow as pa, pyarrow.parquet as f\nc = getattr(f, 'Parquet'+'Writer')\nc('out', pa.schema([])).close()",
    "arrow parquet to dataset": "import pyarrow as pa, pyarrow.parquet as f\ngetattr(f, 'write_to'+'_dataset')(pa.table({'a':[1]}), 'out')",
    "arrow parquet metadata": "import pyarrow as pa, pyarrow.parquet as f\ngetattr(f, 'write_meta'+'data')(pa.schema([]), 'out')",
    "arrow csv writer": "import pyarrow as pa, pyarrow.csv as f\ngetattr(f, 'CSV'+'Writer')('out', pa.schema([])).close()",
    "arrow csv": "import pyarrow as pa, pyarrow.csv as f\ngetattr(f, 'write_'+'csv')(pa.table({'a':[1]}), 'out')",
    "arrow csv low": "import pyarrow as pa, pyarrow._csv as f\nvars(f)['write_'+'csv'](pa.table({'a':[1]}), 'out')",
    "pandas feather": "getattr(df, 'to_'+'feather')('out')",
    "pandas orc": "getattr(df, 'to_'+'orc')('out')",
    "pandas parquet dir": "getattr(df, 'to_'+'parquet')('out', partition_cols=['a'])",
    "polars sink parquet": "import polars as pl\ngetattr(pl.LazyFrame({'a':[1]}), 'sink_'+'parquet')('out')",
    "polars sink ipc word": "import polars as pl\ngetattr(pl.LazyFrame({'a':[1]}), 'sink_'+'ipc')(path='out')",
    "polars sink lazy": "import polars as pl\ngetattr(pl.LazyFrame({'a':[1]}), 'sink_'+'csv')('out', lazy=True).collect()",
    "polars write ipc": "import polars as pl\ngetattr(pl.DataFrame({'a':[1]}), 'write_'+'ipc')('out')",
    "polars write avro": "import polars as pl\ngetattr(pl.DataFrame({'a':[1]}), 'write_'+'avro')('out')",
    "polars write ndjson": "import polars as pl\ngetattr(pl.DataFrame({'a':[1]}), 'write_'+'ndjson')('out')",
    "polars write json": "import polars as pl\ngetattr(pl.DataFrame({'a':[1]}), 'write_'+'json')('out')",
    "polars parquet partition": "import polars as pl\ngetattr(pl.DataFrame({'a':[1]}), 'write_'+'parquet')('out', partition_by='a')",
    "polars partition object": "import polars as pl\nP = getattr(pl, 'Part'+'itionBy')\ngetattr(pl.LazyFrame({'a':[1]}), 'sink_'+'csv')(P('out/', key='a'), mkdir=True)",
    "polars serialize": "import polars as pl\ngetattr(pl.DataFrame({'a':[1]}), 'serial'+'ize')('out')",
    "polars lazy serialize": "import polars as pl\ngetattr(pl.LazyFrame({'a':[1]}), 'serial'+'ize')('out')",
    "duckdb connect": "import duckdb\ngetattr(duckdb, 'con'+'nect')('out')",
    "duckdb cursor": "import duckdb\ngetattr(duckdb.connect().cursor(), 'exe'+'cute')(\"co\" \"py (select 1) to 'out'\")",
    "duckdb export": 'import duckdb\nc = duckdb.connect(); c.execute(\'create table t as select 1 a\'); c.sql("ex" "port data" "base \'out\'")',
    "duckdb prepare": 'import duckdb\nc = duckdb.connect(); c.execute("pre" "pare p as co" "py (select 1) to \'out\'"); c.execute(\'execute p\')',
    "duckdb explain": 'import duckdb\nc = duckdb.connect(); c.execute("explain analyze co" "py (select 1) to \'out\'")',
    "duckdb statement object": 'import duckdb\nc = duckdb.connect(); s = c.extract_statements("co" "py (select 1) to \'out\'")\nc.execute(s[0])',
    "duckdb relation csv": "import duckdb\ngetattr(duckdb.sql('select 1 as a'), 'to_'+'csv')('out')",
    "duckdb relation parquet": "import duckdb\ngetattr(duckdb.sql('select 1 as a'), 'write_'+'parquet')('out')",
    "duckdb relation query": "import duckdb\nduckdb.sql('select 1 as a').query('v', \"co\" \"py v to 'out'\")",
    "duckdb write_csv": "import duckdb\ngetattr(duckdb, 'write_'+'csv')(df, 'out')",
    "duckdb two statements": 'import duckdb\nduckdb.execute("select 1; co" "py (select 1) to \'out\'")',
    "duckdb comment": 'import duckdb\nduckdb.execute("/* x */ co" "py/**/(select 1)/**/to/**/\'out\'")',
    "duckdb getvariable": 'import duckdb\nc = duckdb.connect(); c.execute("set variable o = \'out\'"); c.execute("co" "py (select 1) to (getvariable(\'o\'))")',
    "duckdb temp dir": "import duckdb\nduckdb.execute(\"set temp_directory='out'\")",
    "sqlite uri attach": "import sqlite3\nsqlite3.connect('file::memory:', uri=True).execute(\"att\" \"ach 'file:out?mode=rwc' as o\").execute('create table o.t(a)')",
    "sqlite attach param": "import sqlite3\nsqlite3.connect(':memory:').execute('att' 'ach ? as o', ('out',)).execute('create table o.t(a)')",
    "sqlite unset authorizer": "import sqlite3\nc = sqlite3.connect(':memory:'); getattr(c, 'set_'+'authorizer')(None)\nc.execute(\"att\" \"ach 'out' as o\").execute('create table o.t(a)')",
    "sqlite class": "import sqlite3\nc = getattr(sqlite3, 'Con'+'nection')(':memory:')\nc.execute(\"att\" \"ach 'out' as o\").execute('create table o.t(a)')",
    "sqlite low": "import _sqlite3\nc = _sqlite3.connect(':memory:')\nc.execute(\"att\" \"ach 'out' as o\").execute('create table o.t(a)')",
    "sqlite factory": "import sqlite3\nclass C(sqlite3.Connection): pass\nc = sqlite3.connect(':memory:', factory=C)\nc.execute(\"att\" \"ach 'out' as o\").execute('create table o.t(a)')",
    "sqlite subclass": "import sqlite3\nclass C(sqlite3.Connection): pass\nc = C(':memory:')\nc.execute(\"att\" \"ach 'out' as o\").execute('create table o.t(a)')",
    "sqlite script": "import sqlite3\nsqlite3.connect(':memory:').executescript(\"att\" \"ach 'out' as o; create table o.t(a);\")",
    "sqlite to pandas": "import sqlite3\nc = sqlite3.connect(':memory:')\ndf.to_sql('t', c)\nc.execute(\"vac\" \"uum into 'out'\")",
    "torch save Path": "import torch\ngetattr(torch, 'sa'+'ve')({'a':1}, place)",
    "torch save legacy": "import torch\ngetattr(torch, 'sa'+'ve')({'a':1}, 'out', _use_new_zipfile_serialization=False)",
    "torch jit save": "import torch\nm = torch.jit.script(torch.nn.ReLU())\ngetattr(torch.jit, 'sa'+'ve')(m, 'out')",
    "torch from_file": "import torch\ngetattr(torch, 'from'+'_file')('out', shared=True, size=10)",
    "torch storage from_file": "import torch\ngetattr(torch.UntypedStorage, 'from'+'_file')('out', True, 10)",
    "torch profile": "import torch\nwith torch.profiler.profile() as p: torch.ones(2)\ngetattr(p, 'export_chrome'+'_trace')('out')",
    "torch export": "import torch\ne = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))\ngetattr(torch.export, 'sa'+'ve')(e, 'out')",
    "lmdb": "import lmdb\ngetattr(lmdb, 'op'+'en')('out')",
    "lmdb cpython": "import lmdb.cpython as l\nvars(l)['op'+'en']('out')",
    "torch for phones": "import torch\nm = torch.jit.script(torch.nn.ReLU())\ngetattr(m, '_save_for_lite'+'_interpreter')('out')",
    "torch trace": "import torch\no = torch.profiler.ExecutionTraceObserver()\ngetattr(o, 'register'+'_callback')('out').start()",
    "torch file store": "import torch.distributed as d\ngetattr(d, 'File'+'Store')('out', 1).set('a', 'b')",
    "torch group of processes": "import torch.distributed as d\ngetattr(d, 'init_process'+'_group')('gloo', init_method='file://'+os.path.abspath('out'), rank=0, world_size=1)",
    "torch server": "import torch.distributed as d\ngetattr(d, 'TCP'+'Store')('127.0.0.1', 0, 1, True)",
    "psutil nice": "import psutil\ngetattr(psutil.Process(), 'ni'+'ce')(1)",
    "psutil affinity": "import psutil\ngetattr(psutil.Process(), 'cpu'+'_affinity')([0])",
    "sched affinity": "os.sched_setaffinity(0, {0})",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, 1)",
}

# What the review reads from the names of libraries, where no gate sees what their compiled code does.
BY_LIBRARIES: Final[dict[str, str]] = {
    "duckdb log": "import duckdb\nduckdb.sql(\"call enable_logging(storage='file', storage_path='out')\")\nduckdb.sql('select 1').fetchall()",
    "duckdb log kw": "import duckdb\nc=duckdb.connect()\nc.execute(\"CALL enable_logging('QueryLog', storage='file', storage_path='out')\")\nc.execute('select 1').fetchall()",
    "duckdb set log": "import duckdb\nduckdb.sql(\"set log_query_path='out'\")\nduckdb.sql('select 1').fetchall()",
    "duckdb set log conn": "import duckdb\nc=duckdb.connect()\nc.execute(\"set log_query_path='out'\")\nc.execute('select 1').fetchall()",
    "duckdb pragma": "import duckdb\nduckdb.execute(\"pragma enable_profiling='json'\")\nduckdb.execute(\"set profiling_output='out'\")\nduckdb.execute('select 1')",
    "duckdb copy": "import duckdb\nduckdb.sql(\"copy (select 1) to 'out'\")",
    "duckdb export": "import duckdb\nduckdb.sql('create table t(a int)')\nduckdb.sql(\"export database 'out'\")",
    "duckdb query": "import duckdb\nduckdb.query(\"copy (select 1) to 'out'\")",
    "duckdb method": "import duckdb\nduckdb.sql('select 1').write_csv('out')",
    "duckdb to_csv": "import duckdb\nduckdb.sql('select 1').to_csv('out')",
    "duckdb to_parquet": "import duckdb\nduckdb.sql('select 1').to_parquet('out')",
    "duckdb parts": "import duckdb\nduckdb.sql('co'+'py (select 1) to ' + repr('out'))",
    "duckdb f": "import duckdb\nq = ''.join(['copy (select 1) to ', repr('out')])\nduckdb.sql(q)",
    "duckdb attach": "import duckdb\nduckdb.sql(\"attach 'out' as x\")",
    "duckdb config": "import duckdb\nduckdb.connect(config={'log_query_path':'out'}).sql('select 1').fetchall()",
    "torch lite": "import torch\ntorch.jit.script(torch.nn.ReLU())._save_for_lite_interpreter('out')",
    "torch lite C": "import torch\ntorch.jit.script(torch.nn.ReLU())._c._save_for_mobile('out')",
    "torch dist": "import os, torch.distributed as d\nd.init_process_group('gloo', init_method='file://' + os.path.abspath('out'), rank=0, world_size=1)",
    "torch filestore": "import torch.distributed as d\nd.FileStore('out', 1).set('a','b')",
    "torch tcp": "import torch.distributed as d\nprint('listens on', d.TCPStore('127.0.0.1', 0, 1, True).port)",
    "torch et": "import torch\no=torch.profiler.ExecutionTraceObserver().register_callback('out')\no.start(); o.stop()",
    "torch profile": "import torch\nwith torch.profiler.profile() as p: torch.ones(1)\np.export_chrome_trace('out')",
    "arrow compressed": "import pyarrow as pa\ns = pa.CompressedOutputStream('out', 'gzip')\ns.write(b'x'); s.close()",
    "arrow osfile": "import pyarrow as pa\ns = pa.OSFile('out','w')\ns.close()",
    "arrow lib osfile": "import pyarrow.lib as l\nvars(l)['OS'+'File']('out', 'w').close()",
    "arrow lib osfile2": "import pyarrow.lib as l\nl.OSFile('out', 'w').close()",
    "arrow _csv": "import pyarrow as pa, pyarrow._csv as c\nc.CSVWriter('out', pa.schema([('a',pa.int64())])).close()",
    "arrow _csv2": "import pyarrow as pa, pyarrow._csv as c\nc.write_csv(pa.table({'a':[1]}), 'out')",
    "arrow csv": "import pyarrow as pa, pyarrow.csv as c\nc.CSVWriter('out', pa.schema([('a',pa.int64())])).close()",
    "flight": "import pyarrow.flight as fl\ns = fl.FlightServerBase('grpc://0.0.0.0:0')\nprint('listens on', s.port)",
    "flight2": "import pyarrow._flight as fl\ns = fl.FlightServerBase('grpc://0.0.0.0:0')\nprint('listens on', s.port)",
    "flight sub": "import pyarrow.flight as fl\nclass S(fl.FlightServerBase): pass\ns = S('grpc://0.0.0.0:0')\nprint('listens on', s.port)",
    "flight client": "import pyarrow.flight as fl\nfl.connect('grpc://127.0.0.1:1')",
    "arrow fs": "from pyarrow import fs\nfs.LocalFileSystem().create_dir('out')",
    "arrow parquet": "import pyarrow as pa\nfrom pyarrow._parquet import ParquetWriter as W\nW('out', pa.schema([('a',pa.int64())]))",
    "lmdb": "import lmdb.cpython as l\nvars(l)['op'+'en']('out')",
    "lmdb2": "import lmdb.cpython as l\nl.open('out')",
    "lmdb3": "import lmdb.cpython as l\nl.Environment('out')",
    "lmdb4": "from lmdb.cpython import Environment as E\nE('out')",
    "nice": "import psutil\npsutil.Process().nice(1)",
    "ionice": "import psutil\npsutil.Process().ionice(3)",
    "aff": "import psutil\np=psutil.Process()\np.cpu_affinity([0])",
    "environ data": "import os\nos.environ._data[b'AGK'] = b'1'",
    "environ data2": "import os\nd = os.environ._data\nd[b'AGK'] = b'1'",
    "environ data3": "from os import environ\nenviron._data.update({b'AGK': b'1'})",
    "vars environ": "import os\nvars(os.environ)['_data'][b'AGK'] = b'1'",
    "by a name alone": "import importlib\nm = importlib.import_module('lmdb.cpython')\nm.open('out')",
    "by getattr of the environment": "import os\ngetattr(os.environ, '_data')[b'AGK'] = b'1'",
    "a statement that is made, by the function alone": "from duckdb import sql\nsql(''.join(['copy (select 1) to ', repr('out')]))",
    "a setting, by the function alone": "from duckdb import execute as e\ne(\"set log_query_path='out'\")",
    "everything of lmdb": "from lmdb.cpython import *\nopen('out')",
}

# What is like that and reaches nothing.
AT_LIBRARIES: Final[dict[str, str]] = {
    "a query by the function alone": "from duckdb import sql\nprint(sql('select 1').fetchall())",
    "everything of math": "from math import *\nprint(pi)",
    "set_tbl": "import polars as pl\npl.Config.set_tbl_rows(5)",
    "set_tbl2": "import polars as pl\nwith pl.Config(tbl_rows=5): print(pl.DataFrame({'a':[1]}))",
    "nice read": "import psutil\nprint(psutil.Process().nice(), psutil.Process().cpu_affinity(), psutil.cpu_percent())",
    "duck read": "import duckdb\nprint(duckdb.sql('select 1 as a').df())",
    "duck set": "import duckdb\nduckdb.sql('set threads=2')\nprint(duckdb.sql('select 1').fetchall())",
    "arrow buf": "import pyarrow as pa\nb=pa.BufferOutputStream()\ns=pa.CompressedOutputStream(b,'gzip')\ns.write(b'x'); s.close()",
    "arrow read": "import pyarrow as pa\nprint(pa.table({'a':[1]}).schema)",
    "vars": "import math\nprint(sorted(vars(math))[:3])",
    "torch": "import torch\nprint(torch.distributed.is_available())",
    "duck pragma": "import duckdb\nprint(duckdb.sql(\"pragma table_info('t')\") if 0 else duckdb.sql('show tables'))",
    "column": "import pandas as pd\nprint(pd.DataFrame({'nice': [1]}).nice)",
    "callback": "def register_callback(f): return f()\nprint(register_callback(lambda: 1))",
    "environment": "import os\nprint('HOME' in os.environ, getattr(os.environ, 'get')('LANG_X'))",
    "import": "import importlib\nprint(importlib.import_module('math').pi)",
}

# Of both what acts in compiled code that nothing tells of. Only the operating system could stop it (design/002).
UNSEEN: Final = frozenset(
    {
        "arrow OSFile",
        "arrow OSFile mode word",
        "arrow csv",
        "arrow csv low",
        "arrow csv writer",
        "arrow dataset",
        "arrow feather",
        "arrow fs copy",
        "arrow fs delete",
        "arrow fs from uri",
        "arrow fs mkdir",
        "arrow fs move",
        "arrow fs stream",
        "arrow ipc file",
        "arrow ipc stream",
        "arrow lib OSFile",
        "arrow memory map",
        "arrow memory map rw",
        "arrow output_stream",
        "arrow parquet to dataset",
        "duckdb",
        "duckdb comment",
        "duckdb connect",
        "duckdb cursor",
        "duckdb explain",
        "duckdb export",
        "duckdb getvariable",
        "duckdb prepare",
        "duckdb relation query",
        "duckdb statement object",
        "duckdb temp dir",
        "duckdb two statements",
        "lmdb",
        "lmdb cpython",
        "sqlite attach param",
        "sqlite class",
        "sqlite factory",
        "sqlite low",
        "sqlite script",
        "sqlite subclass",
        "sqlite to pandas",
        "sqlite unset authorizer",
        "sqlite, a backup",
        "sqlite, attached",
        "torch from_file",
        "torch storage from_file",
    }
)
