"""What a dangerous name would do, in words that complete "it ..."."""

from __future__ import annotations

from typing import Final

PROCESS: Final = "starts a process or runs a command"
CODE: Final = "runs Python code that it is given"
FILES: Final = "reads, writes or deletes files"
NETWORK: Final = "opens a network connection"
IMPORTS: Final = "imports modules by name, which runs their code"
ATTRIBUTES: Final = "reads or sets attributes by name, which reaches anything"
NATIVE: Final = "loads or calls native code"
LOADS: Final = "loads data in a form that can run code itself"
DEBUGGER: Final = "starts a debugger, profiler or interpreter, which run what they are given"
INSTALLS: Final = "installs packages or builds extensions, which runs their code"
SYSTEM: Final = "changes the running interpreter, its modules, hooks or signals"
THREADS: Final = "runs a function that it is given, in a thread or later"
CALLS: Final = "calls a function that it is given"
COMPUTED: Final = "reaches a name that is computed while loading"
FILE_CODE: Final = "runs code that the file itself carries"
INTERNALS: Final = "reaches into the interpreter's internals, from where anything can be called"
EXPRESSIONS: Final = "evaluates an expression given as text, which can run code"
BROWSER: Final = "opens a web browser or another program"
DOWNLOADS: Final = "downloads files or code, and may run it"
BUILDS_CODE: Final = "builds functions or classes from code that the file carries"
METHODS: Final = "calls methods of the object that it is given"
MEMORY: Final = "gives a place in memory to be read or written, whatever lies there"
