"""Classes and variables that know their instances: code that makes those, or sets their state, registers them again."""

from tests.fidelity.kinds.kind import Kind

REGISTRIES = (
    Kind(
        "instances that register again while they are loaded",
        """
        import collections, itertools, weakref


        class One:
            def __new__(cls):
                if not hasattr(cls, "one"):
                    cls.one = super().__new__(cls)
                return cls.one

            def __reduce__(self):
                return One, (), self.__dict__.copy()


        class Only:
            only = None

            def __new__(cls):
                if cls.only is None:
                    cls.only = super().__new__(cls)
                return cls.only

            def __reduce__(self):
                return Only, (), self.__dict__.copy()


        class Pooled(collections.OrderedDict):
            pool = {}

            def __new__(cls, name, *items):
                if name not in cls.pool:
                    cls.pool[name] = super().__new__(cls)
                return cls.pool[name]

            def __init__(self, name, *items):
                super().__init__()
                self.name = name


        class Noted:
            ids = itertools.count(1)
            by, alive, last, names = collections.defaultdict(list), weakref.WeakSet(), None, {"all": [0]}

            def __init__(self):
                self.id = next(self.ids)

            def __setstate__(self, state):
                self.__dict__.update(state)
                self.by[type(self).__name__].append(self)
                self.alive.add(self)
                self.names["all"][0] += 1
                Noted.last = self
                next(self.ids)


        SEEN, TOTAL, latest, numbers = [], 0, None, {"n": 0}


        def note(one):
            global TOTAL, latest
            SEEN.append(one)
            TOTAL += 1
            latest = one
            numbers["n"] += 1


        class Global:
            def __setstate__(self, state):
                self.__dict__.update(state)
                note(self)

            def __getstate__(self):
                note(None)
                return self.__dict__


        class Frozen:
            __slots__ = ("a",)

            def __init__(self, a):
                object.__setattr__(self, "a", a)

            def __setattr__(self, name, value):
                raise AttributeError("it is frozen")


        class Slotted(set):
            __slots__ = ("a",)


        one, only, pooled = One(), Only(), Pooled("a")
        one.a, only.a, pooled["k"] = [1], [2], pooled
        noted = [Noted(), Noted()]
        noted[0].other = noted[1]
        seen = Global()
        seen.a = [3]
        SEEN.append(seen)
        frozen, slotted = Frozen([4]), Slotted([1])
        slotted.a = frozen
        """,
        """
        assert one is One.one is One() and one.a == [1]
        assert only is Only.only is Only() and only.a == [2]
        assert Pooled.pool == {"a": pooled} and pooled["k"] is pooled is Pooled.pool["a"] and pooled.name == "a"
        assert (dict(Noted.by), len(Noted.alive), Noted.last, Noted.names) == ({}, 0, None, {"all": [0]}), Noted.by
        assert repr(Noted.ids) == "count(3)", Noted.ids
        assert noted[0].other is noted[1] and [n.id for n in noted] == [1, 2]
        assert SEEN == [seen] and SEEN[0] is seen and seen.a == [3]
        assert (TOTAL, latest, numbers) == (0, None, {"n": 0}), (TOTAL, numbers)
        assert frozen.a == [4] and slotted == {1} and slotted.a is frozen
        """,
    ),
)
