"""Exceptions come back with all that Python keeps beside their arguments; tracebacks do not."""

from tests.fidelity.kinds.kind import Kind

EXCEPTIONS = (
    Kind(
        "exceptions with all that they carry",
        """
        import traceback


        class Own(Exception):
            def __init__(self, code, *, why):
                super().__init__(f"{code}")
                self.code = code
                self.why = why


        class OwnOS(OSError):
            def __init__(self, code):
                super().__init__(code, "text", "file")
                self.c = code


        class Slotted(Exception):
            __slots__ = ("a", "b")

            def __init__(self, a):
                super().__init__(a)
                self.a = a


        class Stateful(ValueError):
            def __setstate__(self, s):
                self.__dict__.update(s)


        errors = {}


        def catch(name, f):
            try:
                f()
            except BaseException as e:
                errors[name] = e.with_traceback(None)


        l = [1]


        def chained():
            try:
                1 / 0
            except ZeroDivisionError as z:
                z.__traceback__ = None
                raise ValueError("v") from z


        def context():
            try:
                {}["k"]
            except KeyError:
                raise TypeError("t")


        def suppressed():
            try:
                {}["k"]
            except KeyError:
                raise RuntimeError("r") from None


        def ownchained():
            try:
                1 / 0
            except ZeroDivisionError as z:
                raise Own(4, why=l) from z


        catch("chained", chained)
        catch("context", context)
        catch("suppressed", suppressed)
        catch("own", ownchained)
        catch("attr", lambda: l.nothing)
        catch("name", lambda: undefined_name_here)
        catch("os", lambda: open("/nonexistent/x"))
        catch("uni", lambda: "\\ud800".encode())
        catch("unid", lambda: b"\\xff".decode())
        catch("syn", lambda: compile("a b", "f.py", "exec"))
        catch("imp", lambda: __import__("nonexistent_mod_x"))
        errors["stop"] = StopIteration(l)
        errors["exit"] = SystemExit(3)
        errors["group"] = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [errors["own"]])])
        errors["os2"] = OSError(2, "m", "a", None, "b")
        errors["ownos"] = OwnOS(5)
        s = Slotted(l)
        errors["slot"] = s
        errors["state"] = Stateful("s")
        errors["state"].x = l
        errors["blk"] = BlockingIOError(1, "b", 7)
        for e in errors.values():
            for ee in (e, e.__cause__, e.__context__):
                if ee is not None:
                    ee.__traceback__ = None
        errors["chained"].add_note("note")
        errors["own"].add_note("n2")
        errors["own"].extra = l
        cause = errors["chained"].__cause__
        loop_a = ValueError("a")
        loop_b = ValueError("b")
        loop_a.__context__ = loop_b
        loop_b.__cause__ = loop_a
        args_l = ValueError(l)
        """,
        """
        e = errors
        assert e["chained"].__cause__ is cause
        assert type(cause) is ZeroDivisionError
        assert e["chained"].__suppress_context__
        assert e["chained"].__notes__ == ["note"]
        assert e["chained"].__context__ is cause
        assert type(e["context"].__context__) is KeyError
        assert e["context"].__cause__ is None
        assert not e["context"].__suppress_context__
        assert e["suppressed"].__cause__ is None
        assert e["suppressed"].__suppress_context__
        assert type(e["suppressed"].__context__) is KeyError
        o = e["own"]
        assert o.code == 4
        assert o.why is l
        assert o.args == ("4",)
        assert type(o.__cause__) is ZeroDivisionError
        assert o.__notes__ == ["n2"]
        assert o.extra is l
        assert e["attr"].obj is l
        assert e["attr"].name == "nothing"
        assert e["name"].name == "undefined_name_here"
        assert e["os"].filename == "/nonexistent/x"
        assert e["os"].errno == 2
        assert type(e["os"]) is FileNotFoundError
        assert e["os2"].filename2 == "b"
        assert e["uni"].object == "\\ud800"
        assert e["unid"].reason
        assert e["syn"].lineno == 1
        assert e["syn"].filename == "f.py"
        assert e["syn"].msg
        assert e["syn"].text
        assert e["imp"].name == "nonexistent_mod_x"
        assert e["stop"].value is l
        assert e["exit"].code == 3
        assert e["group"].exceptions[1].exceptions[0] is o
        assert e["group"].message == "g"
        assert e["ownos"].c == 5
        assert e["ownos"].errno == 5
        assert e["ownos"].filename == "file"
        assert s.a is l
        assert e["slot"] is s
        assert not hasattr(s, "b")
        assert e["state"].x is l
        assert e["blk"].characters_written == 7
        assert loop_a.__context__ is loop_b
        assert loop_b.__cause__ is loop_a
        assert args_l.args[0] is l
        """,
    ),
)
