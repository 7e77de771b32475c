"""What holds a list, a dict or attributes of somebody else's goes on sharing them."""

from tests.fidelity.kinds.kind import Kind

HOLDERS = (
    Kind(
        "methods of builtin objects",
        """
        import types


        def add(items, x):
            items.append(x)
            return items


        l = [1]
        d = {"a": 1}
        s = {1}
        bound = types.MethodType(add, l)
        append = l.append
        length = l.__len__
        put = d.__setitem__
        has = s.__contains__
        getter = d.get
        text_up = "abc".upper
        joiner = ", ".join
        """,
        """
        assert bound.__self__ is l
        assert append.__self__ is l
        assert length.__self__ is l
        assert put.__self__ is d
        assert has.__self__ is s
        assert getter.__self__ is d
        before = len(l)
        assert bound(2) is l
        append(3)
        assert length() == len(l) == before + 2
        put("b", 2)
        assert d["b"] == 2
        assert getter("b") == 2
        s.add(7)
        assert has(7)
        assert text_up() == "ABC"
        assert joiner(["a", "b"]) == "a, b"
        l.pop()
        l.pop()
        d.pop("b")
        s.discard(7)
        """,
    ),
    Kind(
        "slices, and what holds them",
        """
        l = [1]
        cut = slice(l, 2, None)
        cuts = {"here": [slice(None, l)]}
        """,
        """
        assert cut.start is l
        assert cuts["here"][0].stop is l
        assert cut.stop == 2
        """,
    ),
    Kind(
        "views of dicts",
        """
        import collections

        d = {"a": [1], "b": 2}
        o = collections.OrderedDict(x=1)
        keys = d.keys()
        values = d.values()
        items = d.items()
        okeys = o.keys()
        ovalues = o.values()
        oitems = o.items()
        """,
        """
        d["z"] = 9
        o["z"] = 9
        assert "z" in keys
        assert 9 in values
        assert ("z", 9) in items
        assert "z" in okeys
        assert 9 in ovalues
        assert ("z", 9) in oitems
        assert type(keys) is type({}.keys())
        assert type(items) is type({}.items())
        assert type(values) is type({}.values())
        assert keys.mapping["a"] is d["a"]
        assert okeys.mapping == o
        assert type(okeys) is type(type(o)().keys())
        del d["z"], o["z"]
        assert next(iter(values)) is d["a"]
        """,
    ),
    Kind(
        "iterators over shared containers",
        """
        import itertools

        l = [1, 2, 3]
        m = [[1], [2]]
        t = (m[0], m[1])
        it = iter(l)
        next(it)
        rev = reversed(l)
        next(rev)
        z = zip(l, m)
        e = enumerate(m)
        ch = itertools.chain(m, [l])
        ti = iter(t)
        mp = map(len, m)
        fl = filter(None, m)
        isl = itertools.islice(m, 1, None)
        cyc = itertools.cycle(m)
        next(cyc)
        rep = itertools.repeat(l, 2)
        acc = itertools.accumulate(l)
        sm = itertools.starmap(max, [(l, l)])
        """,
        """
        import copy

        assert it.__reduce__()[1][0] is l
        assert list(copy.copy(it)) == [2, 3]
        assert rev.__reduce__()[1][0] is l
        assert e.__reduce__()[1][0].__reduce__()[1][0] is m
        assert z.__reduce__()[1][0].__reduce__()[1][0] is l
        assert z.__reduce__()[1][1].__reduce__()[1][0] is m
        assert mp.__reduce__()[1][1].__reduce__()[1][0] is m
        assert fl.__reduce__()[1][1].__reduce__()[1][0] is m
        assert rep.__reduce__()[1][0] is l
        assert ti.__reduce__()[1][0][0] is m[0]
        """,
    ),
    Kind(
        "standard library holders of shared objects",
        """
        import collections, functools, operator, types, contextvars, contextlib, typing, weakref, queue, string, copy

        l = [1]
        d = {"k": l}
        part = functools.partial(max, l, key=d)
        caller = operator.methodcaller("get", l)
        getter = operator.itemgetter(slice(l, 3))
        chain = collections.ChainMap(d, {"x": l})
        dq = collections.deque([l], maxlen=3)
        od = collections.OrderedDict(a=l)
        dd = collections.defaultdict(l.copy, a=l)
        ud = collections.UserDict()
        ud.data = d
        ul = collections.UserList()
        ul.data = l
        proxy = types.MappingProxyType(d)
        sn = types.SimpleNamespace(x=l, d=d)
        st = staticmethod(l.append)
        cm = classmethod(d.get)
        pr = property(l.append, doc="x")
        cp = functools.cached_property(l.append)
        ga = list[int]
        ann = typing.Annotated[int, l]
        gax = types.GenericAlias(dict, (str, int))
        pmeth = functools.partialmethod(max, l)
        cnt = collections.Counter(a=1)
        q = queue.SimpleQueue
        nc = contextlib.nullcontext(l)
        gah = types.GenericAlias(dict, (str, l))
        """,
        """
        assert part.args[0] is l
        assert part.keywords["key"] is d
        assert d["k"] is l
        assert caller.__reduce__()[1][1] is l
        assert getter.__reduce__()[1][0].start is l
        assert chain.maps[0] is d
        assert chain.maps[1]["x"] is l
        assert dq[0] is l
        assert dq.maxlen == 3
        assert od["a"] is l
        assert dd.default_factory.__self__ is l
        assert dd["a"] is l
        assert ud.data is d
        assert ul.data is l
        d["n"] = 1
        assert proxy["n"] == 1
        del d["n"]
        assert sn.x is l
        assert sn.d is d
        assert st.__func__.__self__ is l
        assert cm.__func__.__self__ is d
        assert pr.fget.__self__ is l
        assert pr.__doc__ == "x"
        assert cp.func.__self__ is l
        assert ga == list[int]
        assert typing.get_args(ann)[1] is l
        assert gax == dict[str, int]
        assert pmeth.args[0] is l
        assert nc.enter_result is l
        assert gah.__args__[1] is l
        """,
    ),
    Kind(
        "a context variable",
        """
        import contextvars

        l = [1]
        cv = contextvars.ContextVar("cv", default=l)
        cv2 = contextvars.ContextVar("cv2")
        cv2.set(l)
        """,
        """
        assert cv.get() is l
        assert cv.name == "cv"
        assert cv2.get() is l
        """,
    ),
    Kind(
        "weak references",
        """
        import weakref


        class Node:
            def __init__(self, v):
                self.v = v

            def go(self):
                return self.v


        class Bag(set):
            pass


        n = Node(1)
        m = Node(2)
        s = {1, 2}
        b = Bag([1])
        fs = frozenset({"aa", "bb"})
        ws = weakref.ref(s)
        wb = weakref.ref(b)
        wn = weakref.ref(n)
        wm = weakref.WeakMethod(n.go)
        wf = weakref.ref(fs)
        wset = weakref.WeakSet([n, m])
        wkd = weakref.WeakKeyDictionary({n: [m]})
        wvd = weakref.WeakValueDictionary({"n": n})
        wp = weakref.proxy(n)
        gone = weakref.ref(Node(5))
        """,
        """
        assert ws() is s
        assert wb() is b
        assert wn() is n
        assert wm()() == 1
        assert wm().__self__ is n
        assert wf() is fs
        assert set(wset) == {n, m}
        assert wkd[n][0] is m
        assert wvd["n"] is n
        assert wp.v == 1
        assert gone() is None
        """,
    ),
    Kind(
        "a weak reference that is met before what it refers to",
        """
        import weakref


        class Tree:
            def __init__(self, parent=None):
                self.parent = weakref.ref(parent) if parent is not None else None
                self.children = []
                self.tags = {1}
                if parent is not None:
                    parent.children.append(self)


        root = Tree()
        kid = Tree(root)
        a_first = weakref.ref(root.tags)
        a_list = [weakref.ref(kid)]
        alone = [weakref.ref(Tree()), weakref.ref(root)]
        """,
        """
        assert kid.parent() is root
        assert root.children[0] is kid
        assert a_first() is root.tags
        assert a_list[0]() is kid
        assert alone[0]() is None
        assert alone[1]() is root
        """,
    ),
    Kind(
        "attributes that are the object itself",
        """
        class AttrDict(dict):
            def __init__(self, *a, **k):
                super().__init__(*a, **k)
                self.__dict__ = self


        class Borg:
            shared = {}

            def __init__(self):
                self.__dict__ = self.shared


        ad = AttrDict(a=1, b=[2])
        x = Borg()
        y = Borg()
        x.value = [1]
        """,
        """
        assert ad.__dict__ is ad
        assert ad.a == 1
        assert ad.b is ad["b"]
        ad.c = 3
        assert ad["c"] == 3
        del ad["c"]
        assert not hasattr(ad, "c")
        assert x.__dict__ is y.__dict__ is Borg.shared
        x.other = 5
        assert y.other == 5
        assert Borg.shared["other"] == 5
        assert Borg().value is x.value
        del x.other
        """,
    ),
    Kind(
        "attribute dicts under names of their own",
        """
        class P:
            pass


        class Q(list):
            pass


        class W:
            def __getattr__(self, n):
                raise AttributeError(n)


        class H:
            def __init__(self):
                self.k = 1
                self.me = self

            def __hash__(self):
                return hash(self.k)

            def __eq__(self, o):
                return self is o


        p = P()
        p.x = [1]
        attrs = vars(p)


        def f():
            pass


        f.calls = [0]
        fd = f.__dict__
        q = Q([1])
        q.z = 2
        qd = vars(q)
        w = W()
        w.a = 1
        wd = w.__dict__
        h = H()
        hd = vars(h)
        p2 = P()
        p2.__dict__ = attrs
        plain = {"u": 1}
        p3 = P()
        p3.__dict__ = plain
        """,
        """
        for obj, held in ((p, attrs), (f, fd), (q, qd), (w, wd), (h, hd), (p3, plain)):
            assert obj.__dict__ is held, obj
            obj.extra = 7
            assert held["extra"] == 7
            held["more"] = 8
            assert obj.more == 8
            del obj.extra, held["more"]
        assert p2.__dict__ is p.__dict__
        assert p2.x is p.x
        assert hd["me"] is h
        """,
    ),
    Kind(
        "objects that share an attribute dict in which there is nothing yet",
        """
        class Borg:
            held = {}
            def __init__(self):
                self.__dict__ = Borg.held

        one, two = Borg(), Borg()
        """,
        """
        assert one.__dict__ is two.__dict__ is Borg.held
        one.n = 1
        assert two.n == 1 and Borg.held == {"n": 1}
        """,
    ),
    Kind(
        "a context of decimal numbers in a list",
        """
        import decimal

        context = decimal.Context(prec=5)
        held = [context]
        """,
        """
        assert held[0] is context and context.prec == 5
        """,
    ),
    Kind(
        "variables of types as keys",
        """
        import typing

        Name, Params, Some = typing.NewType("Name", int), typing.ParamSpec("Params"), typing.TypeVarTuple("Some")
        Name.note = [1]
        by_type = {Name: Params, Params: Some, "note": Name.note}
        """,
        """
        assert by_type[Name] is Params and by_type[Params] is Some and by_type["note"] is Name.note
        assert (Name.__name__, Params.__name__, Some.__name__) == ("Name", "Params", "Some") and Name(3) == 3
        """,
    ),
)
