"""More ways to change `x` by a cell that does not name it: builtins in disguise, and holders that cannot be saved."""

from __future__ import annotations

from tests.session.adversarial import Case

DISGUISES = (
    Case("vars under another name", ("x = []", "v = vars"), "v()[chr(120)].append(1)"),
    Case(
        "eval imported from builtins",
        ("x = []",),
        """
            from builtins import eval as e
            e(chr(120)).append(1)
            """,
    ),
    Case("eval imported from builtins before", ("x = []", "from builtins import eval as e"), "e(chr(120)).append(1)"),
    Case(
        "getattr of builtins",
        ("x = []", "import builtins"),
        "getattr(builtins, 'ev' + chr(97) + 'l')(chr(120)).append(1)",
    ),
    Case("globals under another name", ("x = []",), "f = globals; f()[chr(120)].append(1)"),
    Case("globals under another name before", ("x = []", "f = globals"), "f()[chr(120)].append(1)"),
    Case("exec of the imported builtins", ("x = []",), "__import__('builtins').exec(chr(120) + '.append(1)')"),
    Case("__builtins__", ("x = []",), "vars(__builtins__)['ev' + 'al'](chr(120)).append(1)"),
    Case("eval in a dict", ("x = []", "tools = {'e': eval}"), "tools['e'](chr(120)).append(1)"),
    Case(
        "eval in a partial",
        (
            "x = []",
            """
            import functools
            p = functools.partial(eval, chr(120))
            """,
        ),
        "p().append(1)",
    ),
    Case(
        "eval as a default",
        (
            "x = []",
            """
            def f(c, e=eval):
                return e(c)
            """,
        ),
        "f(chr(120)).append(1)",
    ),
    Case(
        "eval as a class attribute",
        (
            "x = []",
            """
            class T:
                e = staticmethod(eval)
            """,
        ),
        "T.e(chr(120)).append(1)",
    ),
    Case(
        "eval in a closure",
        (
            "x = []",
            """
            def mk(e):
                return lambda c: e(c)
            f = mk(eval)
            """,
        ),
        "f(chr(120)).append(1)",
    ),
    Case("locals at the top level", ("x = []",), "locals()[chr(120)].append(1)"),
    Case("vars at the top level, unpacked", ("x = []",), "vars(*())[chr(120)].append(1)"),
    Case("vars as an argument", ("x = []",), "(lambda f: f)(vars)()[chr(120)].append(1)"),
    Case("a method of the namespace", ("x = []", "get = globals().get"), "get(chr(120)).append(1)"),
    Case(
        "a view of the namespace",
        ("x = []", "items = globals().values()"),
        "[i for i in items if i == []][0].append(1)",
    ),
    Case(
        "a frame",
        ("x = []",),
        """
            import sys
            sys._getframe().f_globals[chr(120)].append(1)
            """,
    ),
    Case(
        "a frame by inspect",
        ("x = []", "import inspect"),
        "getattr(inspect.currentframe(), 'f_' + 'globals')[chr(120)].append(1)",
    ),
    Case(
        "an imported _getframe",
        ("x = []", "from sys import _getframe as g"),
        "getattr(g(), 'f_' + chr(103) + 'lobals')[chr(120)].append(1)",
    ),
    Case(
        "the globals of a function",
        (
            "x = []",
            """
            def f():
                pass
            """,
        ),
        "f.__globals__[chr(120)].append(1)",
    ),
    Case(
        "all objects of the collector",
        ("x = ['mark']", "import gc"),
        "[o.append(1) for o in gc.get_objects() if type(o) is list and list(map(type, o)) == [str] and o == ['ma' + 'rk']]",
        look="len(x)",
    ),
    Case("the C API", ("x = []", "import ctypes"), "ctypes.pythonapi.PyRun_SimpleString(bytes([120]) + b'.append(1)')"),
    Case(
        "an address",
        ("x = []", "address = id(x)", "import ctypes"),
        "ctypes.cast(address, ctypes.py_object).value.append(1)",
    ),
    Case(
        "sys.modules under another name",
        (
            "x = []",
            """
            import sys
            mods = sys.modules
            """,
        ),
        "getattr(mods['__ma' + 'in__'], chr(120)).append(1)",
    ),
    Case(
        "an import of the main module",
        ("x = []", "import importlib"),
        "getattr(importlib.import_module('__main__'), chr(120)).append(1)",
    ),
    Case(
        "a class whose __getattr__ calls globals",
        (
            "x = []",
            """
            class A:
                def __getattr__(self, n):
                    return globals()[n[0]]
            a = A()
            """,
        ),
        "getattr(a, chr(120) + 'y').append(1)",
    ),
    Case(
        "a decorator that calls globals",
        (
            "x = []",
            """
            def d(f):
                globals()[f.__name__[1:]].append(1)
                return f
            """,
        ),
        """
            @d
            def _x():
                pass
            """,
    ),
    Case(
        "a property that calls eval",
        (
            "x = []",
            """
            class A:
                @property
                def p(self):
                    return eval(chr(120))
            a = A()
            """,
        ),
        "a.p.append(1)",
    ),
    Case("exec in a callback of a library", ("x = []", "code = chr(120) + '.append(1)'"), "list(map(exec, [code]))"),
    Case(
        "exec in a partial sorted calls",
        (
            "x = []",
            """
            code = chr(120) + '.append(1)'
            import functools
            k = functools.partial(lambda g, c: exec(c, g), globals())
            """,
        ),
        "sorted([code], key=k)",
    ),
    Case(
        "a text for timeit",
        ("x = []", "import timeit"),
        "timeit.timeit('eval(chr(120)).append(1)', number=1, globals=__import__('sys').modules['__main__'].__dict__)",
    ),
    Case(
        "methodcaller on a dict's item",
        (
            "x = []",
            """
            import operator
            holder = {'k': x}
            mc = operator.methodcaller('append', 1)
            """,
        ),
        "mc(holder['k'])",
        names=("x", "holder"),
    ),
    Case("ip.user_ns", ("x = []", "ip = get_ipython()"), "ip.user_ns[chr(120)].append(1)", shell=True),
    Case("push", ("x = []",), "get_ipython().push({chr(120): [1]})", shell=True),
    Case("ev", ("x = []", "ip = get_ipython()"), "ip.ev(chr(120)).append(1)", shell=True),
    Case("eval in %time", ("x = []",), "%time eval(chr(120)).append(1)", shell=True),
    Case(
        "eval in %timeit with options",
        ("x = []",),
        "%timeit -n1 -r1 eval(chr(120)).append(1)",
        look="len(x) > 0",
        shell=True,
    ),
    Case(
        "eval in %%capture",
        ("x = []",),
        """
            %%capture out
            # a comment
            eval(chr(120)).append(1)
            """,
        shell=True,
    ),
    Case("a command that evaluates", ("x = []",), "!echo {eval(chr(120)).append(1)}", shell=True),
    Case(
        "a magic of the notebook",
        (
            "x = []",
            """
            from IPython.core.magic import register_line_magic
            @register_line_magic
            def poke(line):
                x.append(1)
            del poke
            """,
        ),
        "%poke",
        shell=True,
    ),
    Case(
        "a cell magic of the notebook",
        (
            "x = []",
            """
            from IPython.core.magic import register_cell_magic
            @register_cell_magic
            def poke(line, cell):
                exec(cell.replace('y', chr(120)), globals())
            del poke
            """,
        ),
        """
            %%poke
            y.append(1)
            """,
        shell=True,
    ),
    Case("an extension", ("x = []", "import helper_ext"), "%reload_ext helper_ext", shell=True),
    Case("run_line_magic", ("x = []",), "get_ipython().run_line_magic('run', '-i script.py')", shell=True),
    Case(
        "a function of a script",
        ("open('made.py', 'w').write('x = []; f = lambda: x.append(1)')\n%run made.py",),
        "f()",
        shell=True,
    ),
    Case(
        "a method of a class of a script",
        ("open('made.py', 'w').write('x = []\\nclass A:\\n    def f(self): x.append(1)\\na = A()')\n%run made.py",),
        "a.f()",
        shell=True,
    ),
    Case("a macro", ("x = []", "x.append(1)", "%macro m 2"), "m", shell=True),
)

HOLDERS = (
    Case(
        "a function that a pickle calls",
        (
            """
            import pickle
            x = []
            def f(*args):
                x.append(args)
            class P:
                def __reduce__(self):
                    return f, (1,)
            data = pickle.dumps(P())
            """,
        ),
        "pickle.loads(data)",
    ),
    Case(
        "a function that a pickle calls, by an imported loads",
        (
            """
            from pickle import dumps, loads
            x = []
            class P:
                def __setstate__(self, state):
                    x.append(1)
            p = P()
            p.a = 1
            data = dumps(p)
            """,
        ),
        "loads(data)",
    ),
    Case(
        "an audit hook",
        (
            """
            import sys
            x = []
            def hook(event, args):
                if event == "tests.own":
                    x.append(args)
            sys.addaudithook(hook)
            del hook
            """,
        ),
        "sys.audit('tests.own', 3)",
    ),
    Case(
        "a finder of modules",
        (
            """
            import sys
            x = []
            class Finder:
                def find_spec(self, name, path=None, target=None):
                    if name == "no_such_module_of_tests":
                        x.append(name)
            sys.meta_path.append(Finder())
            """,
        ),
        """
        try:
            import no_such_module_of_tests
        except ImportError:
            import sys
            sys.meta_path.pop()
        """,
    ),
    Case(
        "an adapter of sqlite",
        (
            """
            import sqlite3
            x = []
            class P:
                pass
            sqlite3.register_adapter(P, lambda p: x.append(1) or "p")
            connection, p = sqlite3.connect(":memory:"), P()
            """,
        ),
        "connection.execute('select ?', (p,)).fetchall()",
    ),
    Case(
        "memory by its address",
        (
            """
            import ctypes
            import numpy as np
            x = np.zeros(4)
            address = x.ctypes.data
            """,
        ),
        "ctypes.memset(address, 1, 8)",
        look="list(x)",
    ),
    Case(
        "memory by its address, through an object at it",
        (
            """
            import ctypes
            import numpy as np
            x = np.zeros(4)
            address = x.ctypes.data
            """,
        ),
        "ctypes.c_double.from_address(address).value = 3",
        look="list(x)",
    ),
    Case(
        "a callback of ctypes",
        (
            """
            import ctypes
            x = []
            def f():
                x.append(1)
            cb = ctypes.CFUNCTYPE(None)(f)
            del f
            """,
        ),
        "cb()",
    ),
    Case(
        "a function of sqlite",
        (
            """
            import sqlite3
            x = []
            conn = sqlite3.connect(':memory:')
            def f(v):
                x.append(v)
            conn.create_function('f', 1, f)
            del f
            """,
        ),
        "conn.execute('select f(1)').fetchall()",
    ),
    Case(
        "a lambda given to sqlite by a method",
        (
            """
            import sqlite3
            x = []
            class Db:
                def __init__(self):
                    self.c = sqlite3.connect(':memory:')
                def add(self, f):
                    self.c.create_function('f', 1, f)
            db = Db()
            """,
            "db.add(lambda v: x.append(v))",
        ),
        "db.c.execute('select f(1)').fetchall()",
    ),
    Case(
        "a list's method given to sqlite",
        (
            """
            import sqlite3
            x = []
            conn = sqlite3.connect(':memory:')
            """,
            "conn.create_function('f', 1, x.append)",
        ),
        "conn.execute('select f(1)').fetchall()",
    ),
    Case(
        "a hook of sqlite",
        (
            """
            import sqlite3
            x = []
            conn = sqlite3.connect(':memory:')
            conn.set_trace_callback(x.append)
            """,
        ),
        "conn.execute('select 1').fetchall()",
    ),
    Case(
        "an aggregate of sqlite",
        (
            """
            import sqlite3
            x = []
            conn = sqlite3.connect(':memory:')
            class A:
                def step(self, v):
                    x.append(v)
                def finalize(self):
                    return 0
            conn.create_aggregate('a', 1, A)
            del A
            """,
        ),
        "conn.execute('select a(1)').fetchall()",
    ),
    Case(
        "sched",
        (
            """
            import sched, time
            x = []
            s = sched.scheduler()
            s.enter(0, 1, lambda: x.append(1))
            """,
        ),
        "s.run()",
    ),
    Case(
        "sched with a bound method",
        (
            """
            import sched, time
            x = []
            s = sched.scheduler()
            s.enter(0, 1, x.append, (1,))
            """,
        ),
        "s.run()",
    ),
    Case(
        "run of a thread",
        (
            """
            import threading
            x = []
            t = threading.Thread(target=lambda: x.append(1))
            """,
        ),
        "t.run()",
    ),
    Case(
        "run of a thread with arguments",
        (
            """
            import threading
            x = []
            t = threading.Thread(target=list.append, args=(x, 1))
            """,
        ),
        "t.run()",
    ),
    Case(
        "WeakMethod",
        (
            """
            import weakref
            x = []
            class K:
                def m(self):
                    x.append(1)
            k = K()
            wm = weakref.WeakMethod(k.m)
            """,
        ),
        "wm()()",
    ),
    Case(
        "a weak reference's callback",
        (
            """
            import weakref
            x = []
            class K:
                pass
            k = K()
            r = weakref.ref(k, lambda _: x.append(1))
            """,
        ),
        "del k",
    ),
    Case(
        "a weak reference's callback, rebound",
        (
            """
            import weakref
            x = []
            class K:
                pass
            k = K()
            r = weakref.ref(k, lambda _: x.append(1))
            """,
        ),
        "k = None",
        names=("x", "k"),
    ),
    Case(
        "finalize with a function",
        (
            """
            import weakref
            x = []
            class K:
                pass
            k = K()
            weakref.finalize(k, lambda: x.append(1))
            """,
        ),
        "del k",
    ),
    Case(
        "an error handler of codecs",
        (
            """
            import codecs
            x = []
            def fail(error):
                x.append(1)
                return '', error.end
            codecs.register_error('mine', fail)
            del fail
            """,
        ),
        "codecs.lookup_error('mine')(UnicodeEncodeError('ascii', 'a', 0, 1, ''))",
    ),
    Case(
        "a handler of a signal",
        (
            """
            import signal
            x = []
            signal.signal(signal.SIGUSR1, lambda *a: x.append(1))
            """,
        ),
        """
            import os
            os.kill(os.getpid(), 10)
            """,
    ),
    Case(
        "a bound method as handler of a signal",
        (
            """
            import signal
            x = []
            class H:
                def on(self, *a):
                    x.append(1)
            signal.signal(signal.SIGUSR1, H().on)
            """,
        ),
        """
            import os
            os.kill(os.getpid(), 10)
            """,
    ),
    Case(
        "a filter of logging",
        (
            """
            import logging
            x = []
            logging.getLogger('q').addHandler(logging.NullHandler())
            logging.getLogger('q').addFilter(lambda r: x.append(1))
            """,
        ),
        """
            import logging as L2
            L2.getLogger('q').warning('a')
            """,
    ),
    Case(
        "a handler of logging, by name",
        (
            """
            import logging
            x = []
            class H(logging.Handler):
                def emit(self, r):
                    x.append(1)
            logging.getLogger('q2').addHandler(H())
            """,
        ),
        "logging.getLogger('q2').warning('a')",
    ),
    Case(
        "a coroutine's locals",
        (
            """
            x = []
            async def f(l):
                l.append(1)
            co = f(x)
            """,
        ),
        """
            try:
                co.send(None)
            except StopIteration:
                pass
            """,
    ),
    Case(
        "a generator's locals",
        (
            """
            x = []
            def f(l):
                k = {'deep': l}
                yield
                k['deep'].append(1)
            it = f(x)
            next(it)
            """,
        ),
        "list(it)",
    ),
    Case(
        "a generator within a generator",
        (
            """
            x = []
            def f():
                yield
                x.append(1)
            def g(f):
                yield from f
            it = g(f())
            next(it)
            del f, g
            """,
        ),
        "list(it)",
    ),
    Case(
        "a generator expression",
        (
            """
            x = []
            it = (l.append(1) for l in [x])
            """,
        ),
        "list(it)",
    ),
    Case(
        "an asynchronous generator",
        (
            """
            x = []
            async def f(l):
                l.append(1)
                yield
            it = f(x)
            """,
        ),
        """
            try:
                it.__anext__().send(None)
            except StopIteration:
                pass
            """,
    ),
    Case(
        "a context variable that holds a dict of a list",
        (
            """
            import contextvars
            x = []
            cv = contextvars.ContextVar('cv')
            t = cv.set({'a': x})
            """,
        ),
        "cv.get()['a'].append(1)",
    ),
    Case(
        "a copied context",
        (
            """
            import contextvars
            x = []
            cv = contextvars.ContextVar('cv')
            t = cv.set(['held', x])
            ctx = contextvars.copy_context()
            del cv, t
            """,
        ),
        "next(v for v in ctx.values() if type(v) is list and v[:1] == ['held'])[1].append(1)",
    ),
    Case(
        "a partial in a lock's holder",
        (
            """
            import threading, functools
            x = []
            class B:
                def __init__(self):
                    self.lock = threading.Lock()
                    self.do = functools.partial(x.append, 1)
            b = B()
            """,
        ),
        "b.do()",
    ),
    Case(
        "a queue",
        (
            """
            import queue
            x = []
            q = queue.Queue()
            q.put({'a': x})
            """,
        ),
        "q.get()['a'].append(1)",
    ),
    Case(
        "a simple queue",
        (
            """
            import queue
            x = []
            q = queue.SimpleQueue()
            q.put(x)
            """,
        ),
        "q.get().append(1)",
    ),
    Case(
        "a queue of asyncio",
        (
            """
            import asyncio
            x = []
            q = asyncio.Queue()
            q.put_nowait(x)
            """,
        ),
        "q.get_nowait().append(1)",
    ),
    Case(
        "a future's callback",
        (
            """
            import concurrent.futures as cf
            x = []
            fut = cf.Future()
            fut.add_done_callback(lambda f: x.append(1))
            """,
        ),
        "fut.set_result(1)",
    ),
    Case(
        "a future's result",
        (
            """
            import concurrent.futures as cf
            x = []
            fut = cf.Future()
            fut.set_result({'a': x})
            """,
        ),
        "fut.result()['a'].append(1)",
    ),
    Case(
        "a task of a loop",
        (
            """
            import asyncio
            x = []
            async def f():
                x.append(1)
            loop = asyncio.new_event_loop()
            task = loop.create_task(f())
            del f, task
            """,
        ),
        """
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
            """,
    ),
    Case(
        "call_soon of a loop",
        (
            """
            import asyncio
            x = []
            loop = asyncio.new_event_loop()
            loop.call_soon(x.append, 1)
            """,
        ),
        """
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()
            """,
    ),
    Case(
        "selectors",
        (
            """
            import selectors, socket
            x = []
            a, b = socket.socketpair()
            sel = selectors.DefaultSelector()
            k = sel.register(a, selectors.EVENT_READ, lambda: x.append(1))
            del k
            r = b.send(b'x')
            """,
        ),
        """
            for key, _ in sel.select():
                key.data()
            a.close()
            b.close()
            sel.close()
            """,
    ),
    Case(
        "singledispatch",
        (
            """
            import functools
            x = []
            @functools.singledispatch
            def f(a):
                pass
            @f.register(int)
            def _(a):
                x.append(a)
            del _
            """,
        ),
        "f(1)",
    ),
    Case(
        "a mock's side effect",
        (
            """
            from unittest import mock
            x = []
            m = mock.MagicMock(side_effect=lambda: x.append(1))
            """,
        ),
        "m()",
    ),
    Case(
        "a mock's side effect in a mock",
        (
            """
            from unittest import mock
            x = []
            m = mock.Mock()
            m.go.side_effect = x.append
            """,
        ),
        "m.go(1)",
    ),
    Case(
        "a holder of commands",
        (
            """
            import threading
            x = []
            class W:
                def __init__(self):
                    self.lock = threading.Lock()
                    self.commands = {}
                def on(self, name, f):
                    self.commands[name] = f
                def fire(self, name):
                    self.commands[name]()
            w = W()
            w.on('a', lambda: x.append(1))
            """,
        ),
        "w.fire('a')",
    ),
    Case(
        "a widget's click",
        (
            """
            import ipywidgets
            x = []
            b = ipywidgets.Button()
            b.on_click(lambda _: x.append(1))
            """,
        ),
        "b.click()",
    ),
    Case(
        "an exit stack",
        (
            """
            import contextlib
            x = []
            st = contextlib.ExitStack()
            r = st.callback(lambda: x.append(1))
            del r
            """,
        ),
        "st.close()",
    ),
    Case(
        "a context manager of a generator",
        (
            """
            import contextlib
            x = []
            @contextlib.contextmanager
            def c():
                yield
                x.append(1)
            m = c()
            r = m.__enter__()
            del c
            """,
        ),
        "m.__exit__(None, None, None)",
    ),
    Case(
        "a subscriber of an expat parser",
        (
            """
            import xml.parsers.expat as ex
            x = []
            p = ex.ParserCreate()
            p.StartElementHandler = lambda n, a: x.append(n)
            """,
        ),
        "r = p.Parse('<a/>', True)",
        names=("x", "r"),
    ),
    Case(
        "an iterator with a sentinel",
        (
            """
            x = []
            it = iter(lambda: x.append(1), 5)
            """,
        ),
        "next(it)",
    ),
    Case(
        "map over a function",
        (
            """
            x = []
            it = map(lambda v: x.append(v), [1, 2])
            """,
        ),
        "next(it)",
    ),
    Case(
        "a pool of threads",
        (
            """
            from concurrent.futures import ThreadPoolExecutor
            x = []
            ex = ThreadPoolExecutor(1)
            def f():
                x.append(1)
            """,
            """
            g = f
            del f
            """,
        ),
        """
            ex.submit(g).result()
            ex.shutdown()
            """,
    ),
    Case(
        "a trace function",
        (
            """
            import sys
            x = []
            def tr(*a):
                x.append(1)
            def later():
                pass
            """,
        ),
        """
            sys.setprofile(tr)
            later()
            sys.setprofile(None)
            """,
        look="len(x) > 0",
    ),
    Case(
        "a hook of the collector",
        (
            """
            import gc
            x = []
            gc.callbacks.append(lambda *a: x.append(1))
            """,
        ),
        """
            import gc as g2
            r = g2.collect()
            """,
        look="len(x)",
    ),
    Case(
        "print replaced in builtins",
        (
            """
            import builtins
            x = []
            def say(*a):
                x.append(1)
            builtins.say = say
            del say
            """,
        ),
        "say()",
    ),
    Case(
        "a bound method of a lost object's attribute",
        (
            """
            import threading, collections
            x = []
            class P:
                def __init__(self):
                    self.lock = threading.RLock()
                    self.queue = collections.deque([x])
            p = P()
            """,
        ),
        "p.queue[0].append(1)",
    ),
)
