"""The bundle: all modules that the player needs, in an order that runs, and nothing in a form that
it cannot hold.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recorder.ui.bundle import ENTRY, PAGES, bundle, modules, wrapped
from tests.support.corpus import ROOT

STATIC = ROOT / "recorder" / "ui" / "static"


def needed(path: str) -> set[str]:
    """The modules that one imports, by the names of their files."""
    return {
        Path(given).name
        for given in re.findall(r'^import .* from "([^"]+)";$', (STATIC / path).read_text(), re.M)
    }


def test_every_module_is_there_after_those_that_it_imports() -> None:
    order = list(modules(STATIC, ENTRY, PAGES))
    assert {ENTRY, *PAGES} <= set(order)
    for place, path in enumerate(order):
        assert needed(path) <= {Path(each).name for each in order[:place]}, path


def test_pages_that_are_not_in_it_say_so() -> None:
    page = bundle().page("")
    assert "Promise.resolve($player_player)" in page
    assert page.count("This page is not in the file") >= 5
    assert "import(" not in re.sub(r"/\*\*.*?\*/", "", page, flags=re.DOTALL)


def test_the_skeleton_is_that_of_the_viewer() -> None:
    page = bundle().page("<!--data-->")
    assert '<html lang="en" data-source="file">' in page
    assert "</header>" in page
    assert page.index("<!--data-->") < page.index("<script>")
    assert page.rstrip().endswith("</body>\n</html>")


def test_a_module_becomes_a_function_with_its_exports() -> None:
    source = (
        'import { one as first, two } from "../other.js";\n'
        "export const A = 1;\nexport async function b() {}\nexport class C {}\nconst hidden = first + two;\n"
    )
    assert wrapped("player/x.js", source, {"other.js"}) == (
        "const $player_x = (() => {\nconst { one: first, two } = $other;\n"
        "const A = 1;\nasync function b() {}\nclass C {}\nconst hidden = first + two;\n\n"
        "return { A, b, C };\n})();\n"
    )


@pytest.mark.parametrize(
    "line",
    [
        'import all from "./other.js";',
        'import * as all from "./other.js";',
        'import "./other.js";',
        "export default 1;",
        "export { a };",
        "export let a = 1;",
        'export * from "./other.js";',
        'import {\n  a,\n} from "./other.js"',
    ],
)
def test_another_form_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"x\.js has a form that no bundle can hold"):
        wrapped("x.js", f"const before = 1;\n{line}\n", {"other.js"})


def test_a_circle_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text('import { b } from "./b.js";\nexport const a = b;\n')
    (tmp_path / "b.js").write_text('import { a } from "./a.js";\nexport const b = a;\n')
    with pytest.raises(ValueError, match=r"a\.js imports b\.js imports a\.js"):
        modules(tmp_path, "a.js", ())
