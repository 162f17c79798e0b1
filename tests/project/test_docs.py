"""The README and the pages: what they must name, where they link to, and whether their commands can be read."""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
import yaml

import omg
from omg.cli import command_names, main
from omg.config import algorithm_names, env_config_names, resolve, translate
from omg.config.schema import Config
from omg.envs import ENVS
from omg.envs.adapters import ADAPTERS
from omg.envs.battle import MAPS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
TEXTS = [
    *READMES,
    *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "benchmarks/README")),
    *PAGES,
]
COMMANDS = command_names()

HOOKS = runpy.run_path(str(ROOT / "docs" / "hooks.py"))


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def built(path: Path) -> str:
    """The text of a page as the site has it."""
    return HOOKS["on_page_markdown"](path.read_text())


def anchors(text: str) -> set[str]:
    """What a page's headings can be linked by."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def shell_lines(text: str) -> list[str]:
    """The commands in code blocks, continued lines joined, prompts and comments removed."""
    blocks = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [line.removeprefix("$ ").partition("   #")[0].strip() for line in lines]


@pytest.mark.parametrize("path", READMES, ids=name)
def test_readme_names_every_algorithm_game_map_and_command(path: Path) -> None:
    text = path.read_text()
    assert [key for key in (*algorithm_names(), *env_config_names(), *MAPS) if f"`{key}`" not in text] == []
    assert [command for command in COMMANDS if f"`omg {command}" not in text] == []


def test_every_command_has_a_section() -> None:
    text = (ROOT / "docs" / "commands.md").read_text()
    assert sorted(re.findall(r"^## omg (\w+)$", text, re.MULTILINE)) == sorted(COMMANDS)


def test_the_list_of_games_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["envs"]) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.rstrip().splitlines()]
    assert len(printed) == 4 + len(env_config_names())
    text = (ROOT / "docs" / "commands.md").read_text()
    assert "\n".join(["$ omg envs", *printed, "```"]) in text


def test_a_page_says_how_games_of_predator_prey_end() -> None:
    game = omg.make("predator_prey", api="pymarl", episode_limit=1)
    game.reset()
    over, info = game.step([0, 0, 0, 0])[1:]
    assert (over, "episode_limit" in info) == (True, False), "it ends, it is not cut"
    text = (ROOT / "docs" / "environments" / "predator_prey.md").read_text()
    assert "A game lasts 25 steps and is over then." in text
    assert "is cut then" not in text


def test_the_page_about_clients_names_every_interface_and_script() -> None:
    text = (ROOT / "docs" / "environments" / "clients.md").read_text()
    assert [api for api in ADAPTERS if f"\n| `{api}` |" not in text] == []
    scripts = sorted(path.name for path in (ROOT / "benchmarks" / "clients").glob("*.py"))
    assert len(scripts) == 3
    assert [script for script in scripts if f"python benchmarks/clients/{script}" not in text] == []


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text()
    listed = re.findall(r": ([\w./-]+\.md)$", text, re.MULTILINE)
    assert sorted(listed) == [str(page.relative_to(ROOT / "docs")) for page in PAGES]
    assert yaml.safe_load(text)["hooks"] == ["docs/hooks.py"]


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (anchor and anchor not in anchors(there.read_text())):
            broken.append(target)
        elif path in PAGES and not there.is_relative_to(ROOT / "docs"):
            broken.append(f"{target}: not in the site, which cannot be built then")
    assert broken == []


MISTAKEN = ("--config=qmx", "batchsize=64", "lr=fast", "--config=ALG", "mixer=qtran_alt", "...")
MISTAKEN += ("hop_simulations=500", "omg_mix_start=0.3")
"""Words of examples that show what is refused."""
MISTAKEN += ("--config=path/my_iql.yaml", "--env-config=meeting", "mixer=weighted_sum", "measure=length")
"""Words of parts that users bring."""


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_training_commands_can_be_read(path: Path) -> None:
    for line in shell_lines(path.read_text()):
        words = shlex.split(line) if re.match(r"omg train |python main\.py ", line) else []
        mistaken = any(word in MISTAKEN for word in words)
        if words and not mistaken:
            command = translate(words[2:])
            assert resolve(command.config, command.env_config, command.overrides).config.t_max > 0, line


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_commands_exist(path: Path) -> None:
    used = {line.split()[1] for line in shell_lines(path.read_text()) if line.startswith("omg ")}
    assert used <= {*COMMANDS, "--help"}


def test_messages_of_the_program_name_commands_that_exist() -> None:
    text = "\n".join(path.read_text() for path in sorted((ROOT / "src" / "omg").rglob("*.py")))
    named = set(re.findall(r"(?:`|: |with |use )omg ([a-z]+)\b", text))
    assert {"resume", "evaluate", "train"} <= named
    assert named - {*COMMANDS} == set()


@pytest.mark.parametrize("path", TEXTS, ids=name)
def test_python_blocks_compile(path: Path) -> None:
    for block in re.findall(r"^```python\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
        # Lines of a dictionary, shown by themselves, are given the braces they stand between.
        compile(f"{{{block}}}" if block.lstrip().startswith('"') else block, str(path), "exec")


def test_tables_hold_every_key_option_map_and_algorithm() -> None:
    configuration = built(ROOT / "docs" / "configuration.md")
    assert [key for key in Config.model_fields if f"\n| `{key}` |" not in configuration] == []
    assert [key for key in algorithm_names() if f"\n| `{key}` |" not in configuration] == []
    for env, entry in ENVS.items():
        page = built(ROOT / "docs" / "environments" / f"{'adapters' if entry.traits.foreign else env}.md")
        assert [key for key in entry.traits.args.model_fields if f"\n| `{key}` |" not in page] == []
    battles = built(ROOT / "docs" / "environments" / "sc2.md")
    assert "\n| `8m` | 8 marine | 8 marine | 8 | 8 | 14 | 80 | 168 | 120 |" in battles
    assert all(f"\n| `{key}` |" in battles for key in MAPS)
    assert "\n| zealot | 100 | 50 | 1 | 8 x 2 | 0.86 | 0.1 | 3.15 | 0.5 | light, biological |" in battles
