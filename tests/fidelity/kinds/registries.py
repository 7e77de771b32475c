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
    Kind(
        "instances whose state is set by code that reads variables and keeps them",
        """
        import collections

        UNITS, LOG, RECENT, COUNTS = {"length": "m"}, ["begun"], collections.deque([1]), {"made": 0, "by": {"all": [0]}}
        FACTOR = 2.5


        def build(x):
            return Built(x, UNITS["length"])


        class Built:
            def __init__(self, x, unit):
                self.x, self.unit = x, unit

            def __reduce__(self):
                return build, (self.x,)


        class Configured:
            def __getstate__(self):
                return {"a": 1}

            def __setstate__(self, state):
                self.__dict__ = {**state, "units": UNITS, "unit": UNITS["length"], "times": FACTOR}


        class Logged:
            def __getstate__(self):
                return {"a": 1}

            def __setstate__(self, state):
                LOG.append("loaded")
                RECENT.append(self)
                COUNTS["made"] += 1
                COUNTS["by"]["all"][0] += 1
                self.__dict__ = {**state, "log": LOG, "recent": RECENT, "counts": COUNTS["by"]}


        class Early:
            def __getstate__(self):
                return {"a": 1}

            def __setstate__(self, state):
                zones["all"]["near"].append("loaded")
                zones["seen"] = self
                self.__dict__ = {**state, "near": zones["all"]["near"], "all": zones["all"]}


        built, configured, logged = [Built(1, "m")], Configured(), Logged()
        an_early, zones = Early(), {"all": {"near": ["first"]}}
        an_early.__setstate__({"a": 1})
        configured.__setstate__({"a": 1})
        logged.__setstate__({"a": 1})
        """,
        """
        assert (built[0].x, built[0].unit, UNITS) == (1, "m", {"length": "m"})
        assert configured.units is UNITS and (configured.unit, configured.times, configured.a) == ("m", 2.5, 1)
        assert logged.log is LOG and logged.recent is RECENT and logged.counts is COUNTS["by"]
        assert (LOG, COUNTS) == (["begun", "loaded"], {"made": 1, "by": {"all": [1]}})
        assert an_early.near is zones["all"]["near"] and an_early.all is zones["all"] and zones["seen"] is an_early
        assert (list(zones), zones["all"]) == (["all", "seen"], {"near": ["first", "loaded"]})
        assert len(RECENT) == 2 and RECENT[0] == 1 and RECENT[1] is logged
        """,
    ),
    Kind(
        "what a thread has for itself",
        """
        import functools, threading


        def again(function):
            @functools.wraps(function)
            def call(*args):
                call.known.times = getattr(call.known, "times", 0) + 1
                return function(*args)

            call.known = threading.local()
            return call


        @again
        def add(a, b):
            return a + b


        add(1, 2)
        mine, none, shared = threading.local(), threading.local(), [1]
        mine.rows, mine.me = shared, mine
        held = {"mine": mine}
        """,
        """
        assert add.known.times == 1 and add(2, 3) == 5 and add.known.times == 2
        add.known.times = 1
        assert mine.rows is shared and mine.me is mine is held["mine"] and vars(none) == {}
        assert type(mine) is threading.local and sorted(vars(mine)) == ["me", "rows"]
        """,
    ),
)
