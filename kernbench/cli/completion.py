"""`kbsim completion`: scripts with which bash, zsh and fish complete commands, options and names."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.command_tree import CommandNode, Parameter, command_tree, names_of


class Shell(StrEnum):
    """Shells for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.", show_default=False)],
) -> int:
    """Print a shell script for the completion of commands, options, and names of machines, models and benches.

    For bash, put eval "$(kbsim completion bash)" into ~/.bashrc. For zsh, put eval "$(kbsim completion zsh)" into ~/.zshrc,
    after the call of compinit. For fish, run kbsim completion fish > ~/.config/fish/completions/kbsim.fish. After an
    update of kernbench, print the script again.
    """
    output.write(script(shell))
    return output.OK


def script(shell: str) -> str:
    """The script for `bash`, `zsh` or `fish`. The script contains the names of the package, and calls no program."""
    tree = command_tree()
    if shell == Shell.FISH:
        return "\n".join(_fish(tree)) + "\n"
    return "\n".join([*_tables(tree), *(_BASH if shell == Shell.BASH else _ZSH)]) + "\n"


def values_of(parameter: Parameter) -> list[str]:
    """The values that can be offered, except files."""
    return [*parameter.choices, *(names_of(parameter.kind) if parameter.kind else ())]


#: How the shells find the current word; `_kbsim_tables` sets commands, options, values and files.
_BASH = [
    r"",
    r"_kbsim() {",
    r'    local current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" i',
    r'    local kbsim_path="" commands="" options="" values="" files=""',
    r'    if [[ $before == "=" ]]; then before="${COMP_WORDS[COMP_CWORD-2]}"; fi',
    r'    if [[ $current == "=" ]]; then current=""; fi',
    r'    for ((i = 1; i < COMP_CWORD; i++)); do _kbsim_enter "${COMP_WORDS[i]}"; done',
    r'    _kbsim_tables "$before"',
    r'    if [[ $current == -* ]]; then values="$options" files=""; else values="$commands $values"; fi',
    r'    COMPREPLY=($(compgen -W "$values" -- "$current"))',
    r"    if [[ -n $files ]]; then",
    r"        compopt -o filenames 2>/dev/null",
    r"        local IFS=$'\n'",
    r'        COMPREPLY+=($(compgen -f -- "$current"))',
    r"    fi",
    r"}",
    r"complete -F _kbsim kbsim",
]
_ZSH = [
    r"",
    r"_kbsim() {",
    r'    local current="${words[CURRENT]}" before="${words[CURRENT-1]}" i',
    r'    local kbsim_path="" commands="" options="" values="" files=""',
    r'    for ((i = 2; i < CURRENT; i++)); do _kbsim_enter "${words[i]}"; done',
    r'    _kbsim_tables "$before"',
    r'    if [[ $current == -* ]]; then values="$options" files=""; else values="$commands $values"; fi',
    r"    compadd -- ${=values}",
    r"    if [[ -n $files ]]; then _files; fi",
    r"}",
    r"compdef _kbsim kbsim",
]


def _tables(tree: CommandNode) -> Iterator[str]:
    """The common tables of bash and zsh: the paths of commands, and the words that may follow each."""
    nodes = list(tree.walk())
    known = "|".join(f'"{node.path}"' for node in nodes if node.path)
    yield "_kbsim_enter() {"
    yield '    case "${kbsim_path:+$kbsim_path }$1" in'
    yield f'        {known}) kbsim_path="${{kbsim_path:+$kbsim_path }}$1" ;;'
    yield "    esac"
    yield "}"
    yield "_kbsim_tables() {"
    yield '    case "$kbsim_path" in'
    for node in nodes:
        yield f'        "{node.path}")'
        yield f'            options="{" ".join(name for option in node.options for name in option.names)}"'
        children = [child.path.rpartition(" ")[2] for child in node.children]
        valued = [option for option in node.options if not option.flag]
        indent = "            "
        if valued:
            yield f'{indent}case "$1" in'
            for option in valued:
                yield f"{indent}    {'|'.join(option.names)}) {_set(values_of(option), option.files)} ;;"
            yield f"{indent}    *) {_of_arguments(node, children)} ;;"
            yield f"{indent}esac"
        else:
            yield f"{indent}{_of_arguments(node, children)}"
        yield "            ;;"
    yield "    esac"
    yield "}"


def _set(values: list[str], files: bool) -> str:
    return f'values="{" ".join(values)}" files="{"yes" if files else ""}"'


def _of_arguments(node: CommandNode, children: list[str]) -> str:
    values = [value for argument in node.arguments for value in values_of(argument)]
    files = any(argument.files for argument in node.arguments)
    return f'commands="{" ".join(children)}" {_set(values, files)}'


def _fish(tree: CommandNode) -> Iterator[str]:
    nodes = list(tree.walk())
    yield f"set -g __kbsim_paths {' '.join(_quoted(node.path) for node in nodes if node.path)}"
    yield "function __kbsim_path"
    yield "    set -l path"
    yield "    for word in (commandline -opc)[2..]"
    yield '        set -l next (string trim "$path $word")'
    yield "        contains -- $next $__kbsim_paths; and set path $next"
    yield "    end"
    yield "    echo $path"
    yield "end"
    yield "complete -c kbsim -f"
    for node in nodes:
        here = f"complete -c kbsim -n {_quoted(f'test (__kbsim_path) = {chr(34)}{node.path}{chr(34)}')}"
        for child in node.children:
            yield f"{here} -a {child.path.rpartition(' ')[2]} -d {_quoted(_first(child.help))}"
        for argument in node.arguments:
            if values := values_of(argument):
                yield f"{here} -a {_quoted(' '.join(values))}"
            if argument.files:
                yield f"{here} -F"
        for option in node.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            takes = "" if option.flag else " -r -F" if option.files else " -x"
            values = values_of(option)
            offers = f" -a {_quoted(' '.join(values))}" if values else ""
            yield f"{here} {names}{takes}{offers} -d {_quoted(_first(option.help))}"


def _first(text: str) -> str:
    """The first sentence, or the text before the colon that begins a list."""
    return text.split(". ")[0].rstrip(".")


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
