"""The source of a kernel with calls that check the variables of its loops and branches (`portable`, `variables.py`)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from kernbench.triton import variables

_HELPERS: dict[str, Any] = {
    "__kernbench_loop": variables.Loop,
    "__kernbench_branches": variables.Branches,
    "__kernbench_refuse": variables.refuse_syntax,
    "__kernbench_again": variables.refuse_again,
    "__kernbench_text": variables.of_text,
    "__kernbench_tuple": variables.of_tuple,
}
#: Parts of Python that Triton's compiler does not have.
_REFUSED: dict[type[ast.AST], str] = {
    ast.Dict: "dicts", ast.DictComp: "dicts", ast.Set: "sets", ast.SetComp: "sets", ast.GeneratorExp: "generators",
    ast.Lambda: "lambda functions", ast.Try: "try", ast.Raise: "raise", ast.Delete: "del", ast.Global: "global",
    ast.Nonlocal: "nonlocal", ast.Import: "import", ast.ImportFrom: "import", ast.ClassDef: "classes", ast.Yield: "yield",
    ast.FunctionDef: "nested functions", ast.Match: "match",
}  # fmt: skip
Node = TypeVar("Node", bound=ast.AST)
Statement = TypeVar("Statement", bound=ast.stmt)
_NO_VALUES = (ast.Call, ast.Attribute, ast.Subscript)  #: numbers inside these are not numbers of the condition


def with_checks(file: str, body: ast.FunctionDef, first: int) -> dict[str, Any]:
    """Change a function of a file, whose source begins at line `first`: each loop and `if` checks its variables. Return the
    functions that the new source calls by name."""
    arguments = [*body.args.posonlyargs, *body.args.args, *body.args.kwonlyargs]
    constants = {one.arg for one in arguments if "constexpr" in ast.unparse(one.annotation or ast.Constant(""))}
    constants.update(filter(None, map(_declared, ast.walk(body))))
    assigned = {name for name, _ in _assigned(body.body)} - constants
    _Checks(file, body.name, first - 1, constants, assigned).block(body.body)
    return _HELPERS


def _assigned(statements: Iterable[ast.stmt]) -> list[tuple[str, int]]:
    """Names that statements assign, without those of nested functions, with the line of the last assignment."""
    found: dict[str, int] = {}
    left: list[ast.AST] = [*statements]
    left.reverse()
    while left:
        one = left.pop()
        if isinstance(one, ast.FunctionDef | ast.ClassDef | ast.Lambda | ast.ListComp | ast.GeneratorExp):
            continue
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
            found[one.id] = one.lineno
        left += list(ast.iter_child_nodes(one))[::-1]
    return sorted(found.items())


def _targets(statement: ast.For) -> set[str]:
    return {one.id for one in ast.walk(statement.target) if isinstance(one, ast.Name)}


class _Checks:
    """The change of one function."""

    def __init__(self, file: str, function: str, above: int, constants: set[str], assigned: set[str]) -> None:
        self.file, self.function, self.above = file, function, above
        self.constants, self.assigned = constants, assigned
        self.count = 0
        self.loops: list[str] = []  #: names of the checks of the loops around

    def block(self, statements: list[ast.stmt]) -> None:
        """Change a list of statements."""
        found: list[ast.stmt] = []
        for one in statements:
            refused = self._refused(one)
            if refused is not None:
                found.append(refused)
            elif isinstance(one, ast.For | ast.While):
                found += self._loop(self._values(one))
            elif isinstance(one, ast.If):
                found += self._branches(self._values(one))
            else:
                declared = _declared(one)
                if declared is not None:
                    given = [self._where(one), ast.Constant(declared), _locals()]
                    found.append(_at(one, ast.Expr(ast.Call(ast.Name("__kernbench_again", ast.Load()), given, []))))
                self._values(one)
                if isinstance(one, ast.With):
                    self.block(one.body)
                if isinstance(one, ast.Break | ast.Continue | ast.Return) and self.loops:
                    what = type(one).__name__.lower()
                    around = self.loops if what == "return" else self.loops[-1:]
                    line = ast.Constant(one.lineno + self.above)
                    found += [self._call(one, check, "leaves", [ast.Constant(what), line]) for check in around]
                found.append(one)
        statements[:] = found

    def _refused(self, statement: ast.stmt) -> ast.stmt | None:
        """The error that replaces a statement that Triton's compiler does not support."""
        left: list[ast.AST] = [statement]
        while left:
            one = left.pop()
            what = _REFUSED.get(type(one)) or _form(one)
            if isinstance(one, ast.Subscript | ast.Attribute) and isinstance(one.ctx, ast.Store):
                what = "assignments to elements and attributes"
            if what is not None:
                line = getattr(one, "lineno", statement.lineno) + self.above
                names = [_constant(f"{self.file}:{line}"), _constant(what)]
                return _at(statement, ast.Expr(ast.Call(ast.Name("__kernbench_refuse", ast.Load()), names, [])))
            inside = [one for one in ast.iter_child_nodes(one) if not isinstance(one, ast.stmt)]
            left += inside
        return None

    def _values(self, statement: Statement) -> Statement:
        """Change the expressions of a statement: lists are tuples, f-strings and comprehensions check their values."""
        left: list[ast.AST] = [statement]
        while left:
            one = left.pop()
            inside = [child for child in ast.iter_child_nodes(one) if not isinstance(child, ast.stmt)]
            if isinstance(one, ast.FormattedValue):
                given = [self._where(one), one.value, _names(self._numbers(one.value))]
                one.value = _at(one.value, ast.Call(ast.Name("__kernbench_text", ast.Load()), given, []))
            elif isinstance(one, ast.comprehension):
                given = [self._where(one.iter), one.iter]
                one.iter = _at(one.iter, ast.Call(ast.Name("__kernbench_tuple", ast.Load()), given, []))
            for field, value in ast.iter_fields(one):
                if isinstance(value, ast.List) and isinstance(value.ctx, ast.Load):
                    setattr(one, field, _as_tuple(value))
                elif isinstance(value, list) and not isinstance(one, ast.stmt):
                    value[:] = [_as_tuple(each) if isinstance(each, ast.List) else each for each in value]
            left += inside
        return statement

    def _where(self, node: ast.expr | ast.stmt) -> ast.expr:
        return _constant(f"{self.file}:{node.lineno + self.above}")

    def _loop(self, statement: ast.For | ast.While) -> list[ast.stmt]:
        lines = self._lines(_assigned(statement.body))
        check = self._name()
        more = [_constant(tuple(sorted(self.constants)))]
        if isinstance(statement, ast.For):
            more.append(statement.iter)
            statement.iter = _at(statement.iter, ast.Name(check, ast.Load()))
        else:
            more += [ast.Constant(None), ast.Constant(True)]
        made = self._made(statement, check, "__kernbench_loop", lines, more)
        self.loops.append(check)
        self.block(statement.body)
        self.loops.pop()
        self.block(statement.orelse)
        statement.body.append(self._call(statement.body[-1], check, "end", [_locals()]))
        own = _targets(statement) if isinstance(statement, ast.For) else set()
        return [made, statement, *self._forget(statement, check, [name for name, _ in lines if name not in own])]

    def _branches(self, statement: ast.If) -> list[ast.stmt]:
        first, second = _assigned(statement.body), _assigned(statement.orelse)
        both = sorted({name for name, _ in first} & {name for name, _ in second})
        lines = self._lines([*first, *second])
        check = self._name()
        made = self._made(statement, check, "__kernbench_branches", lines, [_constant(tuple(both))])
        statement.test = self._seen(statement.test, check)
        for part, name in ((statement.body, "then"), (statement.orelse, "else")):
            last = part[-1] if part else statement
            self.block(part)
            part.append(self._call(last, check, "end", [_locals(), ast.Constant(name)]))
        return [made, statement, *self._forget(statement, check, [name for name, _ in lines if name not in both])]

    def _seen(self, test: ast.expr, check: str) -> ast.expr:
        """A condition whose parts are noted."""
        if isinstance(test, ast.BoolOp):
            test.values = [self._seen(one, check) for one in test.values]
            return test
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test.operand = self._seen(test.operand, check)
            return test
        if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Is | ast.IsNot):
            return test
        see = ast.Attribute(ast.Name(check, ast.Load()), "see", ast.Load())
        return _at(test, ast.Call(see, [test, _names(self._numbers(test))], []))

    def _numbers(self, value: ast.expr) -> list[str]:
        """The variables in an expression that are tensors in Triton if they are plain numbers here."""
        names: list[str] = []
        left: list[ast.AST] = [value]
        while left:
            one = left.pop()
            if isinstance(one, ast.Name) and one.id in self.assigned:
                names.append(one.id)
            if not isinstance(one, _NO_VALUES):
                left += list(ast.iter_child_nodes(one))
        return names

    def _made(self, where: ast.stmt, check: str, helper: str, lines: list[tuple[str, int]], more: Sequence[Any]) -> ast.stmt:
        place = _constant((self.file, self.function, where.lineno + self.above))
        made = ast.Call(ast.Name(helper, ast.Load()), [place, _locals(), _constant(tuple(lines)), *more], [])
        return _at(where, ast.Assign([ast.Name(check, ast.Store())], made))

    def _call(self, where: ast.AST, check: str, method: str, arguments: list[ast.expr]) -> ast.stmt:
        function = ast.Attribute(ast.Name(check, ast.Load()), method, ast.Load())
        return _at(where, ast.Expr(ast.Call(function, arguments, [])))

    def _forget(self, where: ast.stmt, check: str, names: list[str]) -> list[ast.stmt]:
        """Remove the names that are not defined after a statement."""
        found: list[ast.stmt] = []
        for name in names:
            function = ast.Attribute(ast.Name(check, ast.Load()), "forgets", ast.Load())
            asked = ast.Call(function, [ast.Constant(name), _locals()], [])
            found.append(_at(where, ast.If(asked, [ast.Delete([ast.Name(name, ast.Del())])], [])))
        return found

    def _lines(self, names: list[tuple[str, int]]) -> list[tuple[str, int]]:
        return sorted({name: line + self.above for name, line in names}.items())

    def _name(self) -> str:
        self.count += 1
        return f"__kernbench_check{self.count}"


def _declared(node: ast.AST) -> str | None:
    """The variable that a statement declares as a constant."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and "constexpr" in ast.unparse(node.annotation):
        return node.target.id
    return None


def _form(node: ast.AST) -> str | None:
    """What Triton's compiler does not have, if it is a form of a node that it has."""
    if isinstance(node, ast.Compare):
        if len(node.ops) > 1:
            return "comparisons of more than two values"
        return "the operator in" if isinstance(node.ops[0], ast.In | ast.NotIn) else None
    if isinstance(node, ast.For | ast.While) and node.orelse:
        return "else after loops"
    if isinstance(node, ast.Assign) and len(node.targets) > 1:
        return "several targets of one assignment"
    if isinstance(node, ast.ListComp) and len(node.generators) > 1:
        return "nested comprehensions"
    return None


def _as_tuple(node: ast.List) -> ast.expr:
    """A list as Triton makes it."""
    return _at(node, ast.Tuple(node.elts, ast.Load()))


def _names(names: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Name(one, ast.Load()) for one in names], ast.Load())


def _locals() -> ast.expr:
    return ast.Call(ast.Name("locals", ast.Load()), [], [])


def _constant(value: Any) -> ast.expr:
    """A constant of any type that code can hold, such as a tuple."""
    return ast.Constant(value)


def _at(where: ast.AST, made: Node) -> Node:
    """A new node at the line of another, with all nodes inside of it that have no line yet."""
    for one in ast.walk(made):
        if not hasattr(one, "lineno") and "lineno" in one._attributes:
            ast.copy_location(one, where)
    return made
