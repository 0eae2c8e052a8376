"""The house style that ruff and mypy cannot hold; each rule is tried on a violation as well."""

from __future__ import annotations

import ast
import io
import re
import shutil
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools import house

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("dispatcher", "pool", "drivers")
FOLDERS = (*PRODUCT, "longshore", "tests", "tools", "benchmarks")

MAX_MODULE_LINES = 1199
MAX_FUNCTION_LINES = 69
SMALL_MODULE_LINES = 60
WHY_ALONE = re.compile(r"^Stands alone: \S", re.MULTILINE)

# Who may import more than 15 modules of ours, with why. The list may only shrink: a module leaves
# it when it imports fewer, and none enters.
MAY_IMPORT_MORE = {
    "dispatcher.api.app": "its table of routes names every route's module",
    "dispatcher.api.routes.containers": "its routes answer for all that one can ask of containers",
    "dispatcher.api.routes.jobs": "its routes answer for jobs of every type",
    "dispatcher.engine.engine": "hears every kind of event, and passes it to who decides",
    "dispatcher.explain.explanation": "looks at all that a container can wait for",
    "dispatcher.scheduler.batch.scheduling_pass": "carries one pass through all that takes part",
    "dispatcher.scheduler.elastic.apply": "what is decided of members touches state and pool",
    "dispatcher.scheduler.elastic.controller": "puts the parts of elastic scheduling together",
    "dispatcher.scheduler.elastic.run": "carries one elastic pass through all that takes part",
    "dispatcher.scheduler.system.controller": "puts the parts of system scheduling together",
    "dispatcher.server.wiring": "puts the parts of the server together",
    "dispatcher.service.admission": "whatever is taken in is checked against all limits here",
    "dispatcher.service.containers": "takes in, shows and steers containers for every caller",
    "dispatcher.service.jobs": "checks, makes, plans and changes jobs of every type",
    "dispatcher.service.services": "puts the services together",
    "dispatcher.state.containers": "every change of a container goes through it",
    "dispatcher.store.store": "whoever asks the store for anything asks it",
}

BANNED_NAMES = frozenset({"utils", "util", "common", "helpers", "misc", "shared", "stuff"})

# Words that this file must be able to name without containing them.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" + "XX")) + r")\b")
MACHINE_PATH = re.compile(
    r"(?<![\w.])/(" + "|".join(("wo" + "rk", "ho" + "me", "Use" + "rs")) + r")/\w"
)
SUPPRESSION = re.compile(r"#\s*(noqa|type:\s*ignore|pragma|mypy:|fmt:|ruff:)")
REASONED = re.compile(r"#\s*(noqa: [A-Z]+\d+(, ?[A-Z]+\d+)*|type: ignore\[[\w, -]+\]) +(- |# )\S")

CLOCKS_AND_DICE = {
    "time": {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "sleep"},
    "datetime": {"now", "utcnow", "today"},
    "random": {"*"},
    "secrets": {"*"},
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom", "getrandom"},
}

# The edges: only these (a name stands for all below it) read a clock or throw dice; everything
# else is handed `now` and its ids. Each with its reason; a new one is a decision, not a habit.
MAY_READ_CLOCKS_AND_DICE = {
    "longshore.dispatcher.client": "on the user's side, too: patience, pauses, idempotency keys",
    "longshore.dispatcher.cli": "a program on the user's side: patience, ages, idempotency keys",
    "longshore.dispatcher.conformance.trial": "hands the conformance kit its time and its dice",
    "longshore.dispatcher.store": "waits for the disk with a deadline, and notes when it wrote",
    "longshore.dispatcher.server.wiring": "throws the dice that everything else is handed",
    "longshore.drivers.ec2.credential_files": "says how long credentials that were read are good",
    "longshore.drivers.local.processes": "gives processes a bounded time to end",
    "longshore.drivers.local.loopback": "makes the id of the one instance when it is created",
    "longshore.drivers.simulated": "is a cloud: boots in real time, its jitter is seeded",
    "longshore.drivers.local.ssh_server": "SSH is spoken with deadlines",
    "longshore.dispatcher.server.clock": "is the clock",
    "longshore.pool.remote.cloud_calls": "driver calls are answered in time or not",
    "longshore.pool.remote.link_lease": "a lease is renewed at intervals",
    "longshore.pool.runner": "is a program of its own: it notes when an attempt began and ended",
    "longshore.pool.remote.session": "heartbeats are late or not, requests are answered or not",
    "longshore.pool.remote.ssh": "SSH is spoken with deadlines",
    "longshore.pool.remote.ssh_channel": "SSH is spoken with deadlines",
    "longshore.pool.remote.ssh_transport": "a far end is read at a pace",
    "longshore.pool.remote.ssh_watchdog": "SSH is spoken with deadlines",
}

# The modules that decide, as the design names them; those that exist must be in the pure core.
DECIDING = (
    "longshore.drivers.interface",
    "longshore.drivers.errors",
    "longshore.pool.model",
    "longshore.pool.messages",
    "longshore.pool.transitions",
    "longshore.pool.core",
    "longshore.pool.probing",
    "longshore.pool.create_backoff",
    "longshore.pool.backoff",
    "longshore.pool.shutdown",
    "longshore.pool.shutdown_decision",
    "longshore.dispatcher.domain",
    "longshore.dispatcher.state",
    "longshore.dispatcher.scheduler",
    "longshore.dispatcher.engine.engine",
    "longshore.dispatcher.explain",
)


def python_files(*folders: str) -> list[Path]:
    return sorted(path for name in folders or FOLDERS for path in ROOT.joinpath(name).rglob("*.py"))


def dotted(path: Path) -> str:
    """Return the module name of a file of this checkout."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    inside = ("longshore", *parts) if parts[0] in PRODUCT else parts
    return ".".join(inside).removesuffix(".__init__")


# ---- the rules: each yields what is wrong with one source text ----------------------------------


def too_long(source: str) -> Iterator[str]:
    """A module is read in one sitting, a function on one screen."""
    if (lines := len(source.splitlines())) > MAX_MODULE_LINES:
        yield f"has {lines} lines, more than {MAX_MODULE_LINES}"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                yield f"{node.lineno}: {node.name} has {length} lines"


def unfinished(source: str) -> Iterator[str]:
    """What is committed is finished; what is not belongs in an issue."""
    for number, line in enumerate(source.splitlines(), 1):
        if UNFINISHED.search(line):
            yield f"{number}: unfinished: {line.strip()}"


def unexplained_suppressions(source: str) -> Iterator[str]:
    """Whoever silences a checker says which rule and why, on that line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        silences = token.type == tokenize.COMMENT and SUPPRESSION.search(token.string)
        if silences and not REASONED.search(token.string):
            yield f"{token.start[0]}: no rule or no reason: {token.string}"


def swallowed_exceptions(source: str) -> Iterator[str]:
    """An exception is handled or passed on; it never ends as silence."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ExceptHandler):
            continue
        if node.type is None:
            yield f"{node.lineno}: bare except"
        elif all(isinstance(each, ast.Pass) or _is_constant(each) for each in node.body):
            yield f"{node.lineno}: an except that does nothing (say contextlib.suppress, and why)"


def _is_constant(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def machine_paths(source: str) -> Iterator[str]:
    """A path of somebody's machine works on no other."""
    for number, line in enumerate(source.splitlines(), 1):
        if MACHINE_PATH.search(line):
            yield f"{number}: a path of one machine: {line.strip()}"


def clocks_and_dice(source: str) -> Iterator[str]:
    """Code that is handed its time and its ids can be replayed; code that takes them cannot."""
    tree = ast.parse(source)
    # What we keep secret is called so, too: only where the module is imported, the name is its.
    has_secrets = "import secrets" in source
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in CLOCKS_AND_DICE:
            banned = CLOCKS_AND_DICE[node.module]
            for alias in node.names:
                if alias.name in banned or ("*" in banned and alias.name[0].islower()):
                    yield f"{node.lineno}: from {node.module} import {alias.name}"
        elif isinstance(node, ast.Attribute) and (module := _module_read(node)):
            if module == "secrets" and not has_secrets:
                continue
            yield f"{node.lineno}: {module}.{node.attr}"


def _module_read(node: ast.Attribute) -> str:
    """Return the module whose clock or dice `node` names ("" for none)."""
    parent = node.value
    name = parent.attr if isinstance(parent, ast.Attribute) else getattr(parent, "id", "")
    name = "datetime" if name == "date" else name
    banned = CLOCKS_AND_DICE.get(name, set())
    return name if node.attr in banned or "*" in banned else ""


def without_assert(source: str) -> Iterator[str]:
    """A test that asserts nothing cannot fail."""
    tree = ast.parse(source)
    checks = ("raises", "fail")
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            return
        if isinstance(node, ast.Attribute) and node.attr in checks:
            return
    yield "has no assert"


def more_than_a_docstring(source: str) -> Iterator[str]:
    """A package's __init__.py says what lives there; importing it does nothing."""
    tree = ast.parse(source)
    if ast.get_docstring(tree) is None:
        yield "has no docstring that says what lives here and what may enter"
    if len(tree.body) > 1:
        yield f"{tree.body[1].lineno}: holds more than a docstring"


Rule = Callable[[str], Iterator[str]]
EVERYWHERE: tuple[Rule, ...] = (
    too_long,
    unfinished,
    unexplained_suppressions,
    swallowed_exceptions,
    machine_paths,
)


def broken(rule: Rule, files: list[Path]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{what}" for path in files for what in rule(path.read_text())]


def expect_none(found: list[str]) -> None:
    """Fail with all that was found, which pytest would shorten."""
    assert not found, "\n".join(["", *found])


# ---- the rules, held ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", EVERYWHERE, ids=lambda rule: rule.__name__)
def test_all_python_keeps_the_rule(rule: Rule) -> None:
    expect_none(broken(rule, python_files()))


def test_packages_hold_a_docstring_only() -> None:
    files = [path for path in python_files(*PRODUCT) if path.name == "__init__.py"]
    assert files
    expect_none(broken(more_than_a_docstring, files))


def may_read_clocks_and_dice(path: Path) -> str:
    """Return the entry of the list above that covers this file, or ""."""
    name = dotted(path)
    covering = [each for each in MAY_READ_CLOCKS_AND_DICE if f"{name}.".startswith(f"{each}.")]
    return covering[0] if covering else ""


def test_clocks_and_dice_are_read_at_the_edges_only() -> None:
    files = [path for path in python_files(*PRODUCT) if not may_read_clocks_and_dice(path)]
    expect_none(broken(clocks_and_dice, files))


def test_every_edge_that_may_read_clocks_or_dice_does() -> None:
    reading = [path for path in python_files(*PRODUCT) if broken(clocks_and_dice, [path])]
    used = {may_read_clocks_and_dice(path) for path in reading}
    expect_none(sorted(set(MAY_READ_CLOCKS_AND_DICE) - used))


def test_every_test_file_asserts_something() -> None:
    files = [path for path in python_files("tests") if path.name.startswith("test_")]
    assert files
    expect_none(broken(without_assert, files))


def test_no_module_is_named_after_nothing() -> None:
    expect_none(
        [dotted(path) for path in python_files() if BANNED_NAMES & {*dotted(path).split(".")}]
    )


def test_texts_name_no_path_of_one_machine() -> None:
    texts = [path for path in ROOT.glob("*") if path.suffix in {".md", ".yml", ".toml"}]
    texts += [
        ROOT / "Makefile",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("tools/*"),
        ROOT / ".ci/run",
    ]
    files = sorted(path for path in texts if path.is_file())
    expect_none(broken(machine_paths, files) + broken(unfinished, files))


# ---- the layout ---------------------------------------------------------------------------------


def wrong_list_of_importers(counts: dict[str, int], allowed: frozenset[str]) -> Iterator[str]:
    """Yield who imports too many modules of ours, and who is on the list for nothing."""
    too_many = {name for name, count in counts.items() if count > house.MAX_IMPORTS}
    yield from (f"{n}: imports {counts[n]} of our modules" for n in sorted(too_many - allowed))
    yield from (f"{n}: imports few enough to leave the list" for n in sorted(allowed - too_many))


def alone_without_a_reason(tree: dict[str, house.Module]) -> Iterator[str]:
    """Yield small modules with one importer that neither are joined to it nor say why."""
    importers = house.importers(tree)
    for each in house.code(tree):
        is_small = each.lines < SMALL_MODULE_LINES and importers[each.name] == 1
        if is_small and not WHY_ALONE.search(each.docstring):
            yield f"{each.name}: {each.lines} lines and one importer: say why it stands alone"


def test_a_module_imports_few_of_ours() -> None:
    tree = house.modules(ROOT)
    counts = {each.name: house.own_imports(each, tree) for each in house.code(tree)}
    assert len(counts) > 300
    expect_none(list(wrong_list_of_importers(counts, frozenset(MAY_IMPORT_MORE))))
    assert len(MAY_IMPORT_MORE) <= 17


def test_a_module_with_one_importer_says_why_it_stands_alone() -> None:
    expect_none(list(alone_without_a_reason(house.modules(ROOT))))


def test_imports_go_down_without_a_ring() -> None:
    found = house.measure(ROOT)
    assert (found.rings, found.arrows_up) == ([], [])


@pytest.fixture
def planted_tree(tmp_path: Path) -> Path:
    """Return a tree of the older kind, without `longshore.`, with one of each fault."""
    files = {
        "pyproject.toml": """
            [[tool.importlinter.contracts]]
            type = "layers"
            layers = ["dispatcher", "pool", "drivers"]
            """,
        "dispatcher/__init__.py": '"""The top."""',
        "dispatcher/one/a.py": '"""Small."""\nfrom dispatcher.two.b import B, f\nclass A: ...\n',
        "dispatcher/two/b.py": "import dispatcher.one.a\nclass B: ...\nclass _Hidden: ...\n"
        "def f(): ...\ndef g(): ...\n",
        "dispatcher/three/c.py": "from dispatcher.one import a\nclass B: ...\n"
        "async def f(): ...\ndef g(): ...\n" + "x = 1\n" * 60,
        "pool/d.py": '"""D.\n\nStands alone: since it must.\n"""\nimport dispatcher.three.c\n'
        "from dispatcher.three.c import f\n",
        "drivers/e.py": "class _Hidden: ...\n",
    }
    for name, text in files.items():
        tmp_path.joinpath(name).parent.mkdir(parents=True, exist_ok=True)
        tmp_path.joinpath(name).write_text(text)
    return tmp_path


def test_the_layout_of_a_tree_is_measured(planted_tree: Path) -> None:
    found = house.measure(planted_tree)
    assert found.rings == [["dispatcher/one", "dispatcher/two"]]
    assert found.arrows_up == ["pool.d -> dispatcher.three.c"]
    # Both import `f` by name, and nobody `g`.
    twice = ["dispatcher.three.c", "dispatcher.two.b"]
    assert found.names_defined_twice == {"B": twice, "f": twice}
    # pool imports three, which imports the ring.
    assert (found.folders, found.folders_in_rings, found.layers, found.modules) == (5, 2, 3, 5)
    assert found.mean_imports == 0.8


def test_a_small_module_without_a_reason_is_found(planted_tree: Path) -> None:
    [found] = alone_without_a_reason(house.modules(planted_tree))
    assert found.startswith("dispatcher.two.b: 5 lines")


def test_a_list_of_importers_that_is_wrong_is_found() -> None:
    found = list(wrong_list_of_importers({"a": 16, "b": 15, "c": 16}, frozenset({"b", "c"})))
    assert [each.partition(":")[0] for each in found] == ["a", "b"]


# ---- the import contracts -----------------------------------------------------------------------


def pure_core() -> list[str]:
    settings = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text())
    [contract] = [
        each
        for each in settings["tool"]["importlinter"]["contracts"]
        if each["type"] == "forbidden" and "pure core" in each["name"]
    ]
    return list(contract["source_modules"])


def test_every_deciding_module_is_in_the_pure_core() -> None:
    known = {dotted(path) for path in python_files(*PRODUCT)}
    listed = pure_core()
    covered = [n for n in known if any(f"{n}.".startswith(f"{each}.") for each in listed)]
    # A name that is no module any more would be guarded no more, and nobody would hear of it.
    missing = [name for name in DECIDING if name not in known or name not in covered]
    expect_none(missing)


def lint_imports(directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def copy_of_product(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "longshore", tmp_path / "longshore", ignore=ignored, symlinks=True)
    for name in PRODUCT:
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_import_contracts_hold(copy_of_product: Path) -> None:
    result = lint_imports(copy_of_product)
    assert result.returncode == 0, result.stdout
    assert "0 broken" in result.stdout


@pytest.mark.parametrize(
    ("where", "planted", "contract"),
    [
        ("drivers/interface.py", "import longshore.pool.model", "dispatcher -> pool -> drivers"),
        (
            "pool/model.py",
            "import longshore.dispatcher.domain.vitals",
            "dispatcher -> pool -> drivers",
        ),
        ("pool/transitions.py", "import time", "the pure core"),
        ("dispatcher/client/exchange.py", "import urllib3", "the pure core"),
        (
            "dispatcher/client/blocking.py",
            "import longshore.dispatcher.domain.timefmt",
            "the client library",
        ),
        ("dispatcher/domain/containers.py", "from datetime import datetime", "the pure core"),
        ("dispatcher/scheduler/elastic/cpu_shares.py", "import time", "the pure core"),
        (
            "dispatcher/state/queue.py",
            "import longshore.dispatcher.explain.estimate",
            "the folders of the dispatcher",
        ),
        (
            "dispatcher/scheduler/placement/fleet.py",
            "import longshore.dispatcher.scheduler.batch.plan",
            "the folders of the scheduler",
        ),
        ("pool/runner/wire.py", "import longshore.pool.remote.wire", "the runner imports nothing"),
        (
            "dispatcher/explain/estimate.py",
            "import longshore.dispatcher.engine.engine",
            "nobody but the server",
        ),
        (
            "dispatcher/scheduler/placement/fleet.py",
            "import longshore.pool.launching",
            "schedulers reach the pool",
        ),
        ("drivers/ec2/power.py", "import longshore.drivers.libcloud.naming", "drivers share"),
    ],
)
def test_a_planted_import_breaks_its_contract(
    copy_of_product: Path, where: str, planted: str, contract: str
) -> None:
    module = copy_of_product / where
    module.write_text(module.read_text() + f"\n{planted}\n")
    result = lint_imports(copy_of_product)
    assert result.returncode == 1
    [line] = [line for line in result.stdout.splitlines() if " BROKEN" in line]
    assert line.startswith(contract)


def test_the_pure_core_is_followed_through_our_own_modules(copy_of_product: Path) -> None:
    copy_of_product.joinpath("drivers/planted.py").write_text("import random\n")
    module = copy_of_product / "pool" / "transitions.py"
    module.write_text(module.read_text() + "\nimport longshore.drivers.planted\n")
    result = lint_imports(copy_of_product)
    assert "longshore.drivers.planted -> random" in result.stdout


# ---- the rules catch what they are for ----------------------------------------------------------

VIOLATIONS: list[tuple[Rule, str]] = [
    (too_long, "x = 1\n" * (MAX_MODULE_LINES + 1)),
    (too_long, "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES),
    (unfinished, "x = 1  # TO" + "DO: more"),
    (unexplained_suppressions, "import os  # no" + "qa: F401"),
    (unexplained_suppressions, "import os  # no" + "qa"),
    (unexplained_suppressions, "x = 1  # type: ig" + "nore  # because"),
    (unexplained_suppressions, "x = 1  # type: ig" + "nore[misc]"),
    (swallowed_exceptions, "try:\n    f()\nexcept:\n    raise"),
    (swallowed_exceptions, "try:\n    f()\nexcept Exception:\n    pass"),
    (swallowed_exceptions, "try:\n    f()\nexcept ValueError:\n    ..."),
    (machine_paths, "x = '/ho" + "me/somebody/x'"),
    (machine_paths, "x = '/wo" + "rk/main'"),
    (clocks_and_dice, "import time\nx = time.monotonic()"),
    (clocks_and_dice, "from time import sleep"),
    (clocks_and_dice, "import datetime\nx = datetime.datetime.now()"),
    (clocks_and_dice, "from datetime import date\nx = date.today()"),
    (clocks_and_dice, "import secrets\nx = secrets.token_hex()"),
    (clocks_and_dice, "import random\nx = random.Random(1)"),
    (clocks_and_dice, "import uuid\nx = uuid.uuid4()"),
    (without_assert, "def test_it():\n    f()"),
    (more_than_a_docstring, '"""Doc."""\nimport os'),
    (more_than_a_docstring, ""),
]

FINE: list[tuple[Rule, str]] = [
    (too_long, "x = 1\n" * MAX_MODULE_LINES),
    (too_long, "def f():\n" + "    x = 1\n" * (MAX_FUNCTION_LINES - 1)),
    (unexplained_suppressions, "import os  # no" + "qa: F401 - re-exported on purpose"),
    (unexplained_suppressions, "x = 1  # type: ig" + "nore[misc]  # the stubs are wrong"),
    (swallowed_exceptions, "try:\n    f()\nexcept ValueError:\n    return None"),
    (machine_paths, "x = 'a/ho" + "me/b', '/var/lib/longshore'"),
    (clocks_and_dice, "import datetime\nx = datetime.datetime.fromtimestamp(now)"),
    (clocks_and_dice, "x = clock.monotonic()"),
    (clocks_and_dice, "x = services.secrets.list()"),
    (more_than_a_docstring, '"""Doc."""\n'),
]


@pytest.mark.parametrize(("rule", "source"), VIOLATIONS)
def test_a_rule_catches_its_violation(rule: Rule, source: str) -> None:
    assert list(rule(source))


@pytest.mark.parametrize(("rule", "source"), FINE)
def test_a_rule_lets_the_rest_pass(rule: Rule, source: str) -> None:
    assert list(rule(source)) == []
