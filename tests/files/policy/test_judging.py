from __future__ import annotations

import pytest
from tests.files.pickles.assembler import build, call, name, new, pickled

from everybit.files.pickles.naming import Named
from everybit.files.pickles.reach import Reached, Via, find_reached
from everybit.files.pickles.stream import read_pickles
from everybit.files.policy import effects
from everybit.files.policy.judging import Danger, judge


def judged(qualified: str, *, called: bool = True, via: Via = Via.IMPORT, sure: bool = True):
    """The judgement of a name by its module and last part."""
    module, _, path = qualified.partition(":")
    reached = Reached(Named(module, path, sure=sure), via)
    reached.num_calls = int(called)
    return judge(reached)


DANGEROUS = {
    effects.PROCESS: "os:system posix:system nt:popen subprocess:Popen pty:spawn "
    "multiprocessing.util:spawnv_passfds asyncio.unix_events:_UnixSubprocessTransport._start "
    "_osx_support:_read_output _aix_support:_read_cmd_output _pyrepl.pager:pipe_pager "
    "uuid:_get_command_stdout torch.utils.collect_env:run torch.distributed.run:main "
    "numpy:os.system torch.serialization:os.system platform:popen commands:getoutput "
    "_posixsubprocess:fork_exec some.unlisted.module:popen",
    effects.CODE: "builtins:eval builtins:exec __builtin__:execfile timeit:timeit "
    "code:InteractiveInterpreter.runcode runpy:run_path doctest:debug_script "
    "idlelib.pyshell:ModifiedInterpreter.runcode idlelib.run:Executive.runcode "
    "idlelib.autocomplete:AutoComplete.get_entity idlelib.calltip:Calltip.fetch_tip "
    "lib2to3.pgen2.pgen:ParserGenerator.make_label numpy.testing._private.utils:runstring "
    "torch._dynamo.guards:GuardBuilder.get torch._inductor.codecache:PyCodeCache.load "
    "torch.fx.experimental.symbolic_shapes:ShapeEnv.evaluate_guards_expression "
    "torch.utils.bottleneck.__main__:run_cprofile torch.jit.unsupported_tensor_ops:execWrapper "
    "codeop:compile_command test.support.script_helper:assert_python_ok "
    "collections:namedtuple dataclasses:make_dataclass anything.at.all:exec",
    effects.DEBUGGER: "pdb:run bdb:Bdb.run cProfile:runctx profile:Profile.runctx "
    "trace:Trace.run pydoc:pipepager builtins:breakpoint builtins:help",
    effects.FILES: "builtins:open io:FileIO shutil:rmtree tempfile:mkstemp linecache:getline "
    "pathlib:Path().write_text numpy:memmap numpy:fromfile numpy._core.records:fromfile "
    "torch:FloatStorage.from_file torch.storage:UntypedStorage().from_file argparse:FileType "
    "numpy.core.multiarray:scalar().tofile "
    "sqlite3:connect zipfile:ZipFile fileinput:input",
    effects.NETWORK: "socket:create_connection urllib.request:urlopen http.client:HTTPSConnection "
    "smtplib:SMTP ssl:get_server_certificate xmlrpc.client:ServerProxy requests:get "
    "urllib2:urlopen aiohttp.client:ClientSession",
    effects.IMPORTS: "importlib.util:spec_from_file_location pkgutil:resolve_name imp:load_source "
    "zipimport:zipimporter cloudpickle.cloudpickle:load_module torch._utils:_import_dotted_name",
    effects.NATIVE: "ctypes:CDLL cffi:FFI torch.ops:load_library numpy.ctypeslib:load_library",
    effects.LOADS: "pickle:loads _pickle:loads cPickle:load marshal:loads torch:load "
    "torch.jit:load dill:loads joblib.numpy_pickle:load cloudpickle:loads "
    "numpy.lib.npyio:load yaml:load torch.serialization:load pandas:read_pickle shelve:open "
    "torch.utils._config_module:load_config jsonpickle:decode ray.cloudpickle:loads "
    "torch.utils.data.datapipes.utils.decoder:basichandlers tensorflow.io:read_file",
    effects.INSTALLS: "pip:main pip._internal:main ensurepip:_run_pip venv:create "
    "distutils.spawn:spawn distutils.file_util:write_file setuptools:setup "
    "torch.utils.cpp_extension:load_inline numpy.f2py.crackfortran:getlincoef site:addsitedir",
    effects.BROWSER: "webbrowser:open antigravity:geohash tkinter:Tk",
    effects.SYSTEM: "sys:exit logging.config:dictConfig signal:signal gc:get_objects "
    "copyreg:add_extension atexit:register types:ModuleType",
    effects.ATTRIBUTES: "builtins:setattr builtins:delattr operator:setitem builtins:globals",
    effects.CALLS: "builtins:map functools:reduce itertools:starmap operator:methodcaller "
    "hydra.utils:instantiate",
    effects.THREADS: "threading:Thread _thread:start_new_thread weakref:finalize",
    effects.EXPRESSIONS: "sympy.parsing.sympy_parser:parse_expr numexpr:evaluate pandas:eval "
    "pandas.core.computation.eval:eval typing:get_type_hints sympy:sympify",
    effects.DOWNLOADS: "huggingface_hub:hf_hub_download nltk:download datasets:load_dataset "
    "torch.hub:load",
    effects.INTERNALS: "x:f.__globals__ x:f.__code__ numpy:__builtins__ x:K.__subclasses__",
    effects.COMPUTED: "?:system os:? x:?.y",
}


@pytest.mark.parametrize(
    ("does", "qualified"),
    [(does, item) for does, items in DANGEROUS.items() for item in items.split()],
)
def test_dangerous_names_and_what_they_do(does, qualified):
    found = judged(qualified)
    assert found.danger is Danger.DANGEROUS
    if qualified != "cloudpickle.cloudpickle:load_module":
        assert found.does == does


SAFE = (
    "builtins:set builtins:slice builtins:complex collections:OrderedDict collections:defaultdict "
    "datetime:datetime decimal:Decimal pathlib:PosixPath argparse:Namespace "
    "functools:partial copyreg:_reconstructor _codecs:encode numpy:ndarray numpy:dtype "
    "numpy._core.multiarray:scalar numpy.core.multiarray:_reconstruct numpy.dtypes:Float64DType "
    "numpy.random._pickle:__generator_ctor torch._utils:_rebuild_tensor_v2 torch:FloatStorage "
    "torch.nn.modules.rnn:LSTM torch:bfloat16 torch:Size "
    "torch.nn.parameter:Parameter torch.nn.modules.linear:Linear "
    "torch.optim.adamw:AdamW torch.optim.lr_scheduler:LambdaLR torch.serialization:_get_layout "
    "transformers.training_args:TrainingArguments transformers.trainer_utils:SchedulerType "
    "lightning.fabric.utilities.data:AttributeDict omegaconf.dictconfig:DictConfig "
    "torch.distributed.checkpoint.metadata:Metadata torch.amp.grad_scaler:GradScaler"
)


@pytest.mark.parametrize("qualified", SAFE.split())
def test_names_of_usual_checkpoints_are_safe(qualified):
    found = judged(qualified)
    assert found.danger is Danger.SAFE
    assert found.does == ""


@pytest.mark.parametrize(
    "qualified",
    [
        "torch.nn.functional:gelu",
        "torch._C:_VariableFunctionsClass.relu",
        "numpy:float32",
        "enum:Enum",
    ],
)
def test_what_picklers_only_name_is_safe_where_it_is_not_called(qualified):
    assert judged(qualified, called=False).danger is Danger.SAFE
    assert judged(qualified).danger is Danger.UNKNOWN


@pytest.mark.parametrize(
    "qualified",
    [
        "__main__:Config", "my.project:Model", "stable_baselines3.common.buffers:ReplayBuffer",
        "builtins:print", "torch.nn.modules.linear:helper",
        "torch.nn.modules.linear:Linear.forward", "torch.optim._stateless:NamedTuple",
        "torch.ao.quantization.observer:ABCMeta", "torch.nn.modules.activation:F",
        "numpy:sum", "collections:OrderedDict.fromkeys", "sklearn.svm._classes:SVC",
        # The nearest to what is dangerous: a module of one's own, a method, a longer name.
        "ossified:system_config", "my.os_tools:Reader", "model.pickler:Pickler",
        "__main__:evaluate",
        "project.subprocesses:Pool", "x:Model().eval",
    ],
)  # fmt: skip
def test_other_names_are_unknown(qualified):
    assert judged(qualified).danger is Danger.UNKNOWN


def test_the_library_is_the_top_package():
    assert judged("stable_baselines3.common.buffers:ReplayBuffer").library == "stable_baselines3"


def test_a_telling_name_counts_where_it_is_called():
    assert judged("x:popen").danger is Danger.DANGEROUS
    assert judged("x:popen", called=False).danger is Danger.UNKNOWN


def test_getattr_is_as_safe_as_what_it_gives():
    assert judged("builtins:getattr").danger is Danger.SAFE
    assert judged("builtins:getattr", sure=False).danger is Danger.DANGEROUS
    assert judged("builtins:getattr", called=False).danger is Danger.DANGEROUS


def test_a_change_of_something_shared_is_dangerous_even_of_a_safe_name():
    found = judged("collections:OrderedDict", via=Via.CHANGE)
    assert found.danger is Danger.DANGEROUS
    assert found.does.startswith("sets attributes")


def worst(value) -> dict[str, str]:
    """What is told of a pickle: each name that is not safe, and how dangerous it is."""
    found = find_reached(read_pickles(pickled(value)).pickles[0])
    return {
        item.qualified: str(judge(item).danger)
        for item in found
        if judge(item).danger is not Danger.SAFE
    }


CLOUD = "cloudpickle.cloudpickle"
CODE = call(call(name(CLOUD, "_builtin_type"), "CodeType"), 1, b"code")
FUNCTION = call(name(CLOUD, "_make_function"), CODE, {})
SPACE = name("argparse", "Namespace")
CLASS = call(name(CLOUD, "_make_skeleton_class"), name("builtins", "type"), "K", (), {})


def with_methods(*methods: str):
    """A class from the file with these methods."""
    state = (dict.fromkeys(methods, FUNCTION), {})
    # `_class_setstate` changes the class, which the memo gives back afterwards.
    setter = call(name(CLOUD, "_class_setstate"), type(CLASS)(CLASS + b"q\x01"), state)
    return type(CLASS)(setter + b"0h\x01")


@pytest.mark.parametrize(
    "value",
    [
        FUNCTION,
        {"schedule": FUNCTION},
        CLASS,
        new(CLASS),
        build(new(with_methods("go", "__init__")), {"a": 1}),
        call(name("functools", "partial"), FUNCTION, 1),
        call(name("collections", "defaultdict"), FUNCTION),
        build(call(SPACE), {"keys": FUNCTION, "append": FUNCTION}),
    ],
    ids=["function", "within", "class", "instance", "with methods", "partial", "default", "kept"],
)
def test_building_functions_and_classes_is_unknown_and_not_dangerous(value):
    assert set(worst(value).values()) == {"unknown"}


@pytest.mark.parametrize(
    "value",
    [
        call(FUNCTION, 1),
        call(call(name("functools", "partial"), FUNCTION), 1),
        call(name("builtins", "map"), FUNCTION, [1]),
        build(new(with_methods("__setstate__")), {"a": 1}),
        new(with_methods("__new__")),
        call(with_methods("__init__"), 1),
        call(call(name("dill._dill", "_create_function"), CODE), 1),
        call(call(name("types", "FunctionType"), CODE, {}), 1),
        call(call(name("builtins", "getattr"), CLASS, "run"), 1),
        type(CLASS)(build(call(SPACE), {"append": FUNCTION}) + b"K\x01a"),
        build(build(call(SPACE), {"__setstate__": FUNCTION}), {"a": 1}),
        call(name("builtins", "dict"), build(call(SPACE), {"keys": FUNCTION})),
        call(name("torch.nn.parameter", "Parameter"), build(call(SPACE), {"detach": FUNCTION})),
    ],
    ids=[
        "call",
        "partial",
        "map",
        "setstate",
        "new",
        "init",
        "dill",
        "types",
        "method",
        "append",
        "state",
        "keys",
        "detach",
    ],
)
def test_running_code_from_the_file_is_dangerous(value):
    assert "dangerous" in worst(value).values()


def test_enum_members_and_nested_classes_by_getattr_are_judged_by_their_class():
    assert worst(call(name("builtins", "getattr"), name("x", "Colour"), "RED")) == {
        "x.Colour": "unknown",
        "x.Colour.RED": "unknown",
    }


def test_a_module_that_a_function_uses_is_unknown_and_what_is_called_in_it_dangerous():
    module = call(name(CLOUD, "subimport"), "os")
    assert worst({"uses": module}) == {"os": "unknown"}
    assert worst(call(call(name("builtins", "getattr"), module, "system"), "ls")) == {
        "os": "unknown",
        "os.system": "dangerous",
    }
    for by_import in ("antigravity", "unittest.__main__", "idlelib.idle"):
        assert worst(call(name(CLOUD, "subimport"), by_import)) == {by_import: "dangerous"}


def test_abstract_classes_are_named_by_classes_in_the_file():
    made = call(
        name(CLOUD, "_make_skeleton_class"), name("abc", "ABCMeta"), "K", (name("abc", "ABC"),), {}
    )
    assert set(worst(new(made)).values()) == {"unknown"}
    assert worst(call(name("abc", "ABCMeta"), "K", (), {})) == {"abc.ABCMeta": "unknown"}


def test_what_is_kept_of_a_name_is_not_kept_of_its_use():
    """Judgements of a name are kept, and each use of it has its own."""
    for _ in range(2):
        assert judged("builtins:getattr").danger is Danger.SAFE
        assert judged("builtins:getattr", sure=False).danger is Danger.DANGEROUS
        assert judged("builtins:getattr", called=False).danger is Danger.DANGEROUS
        assert judged("torch.nn.functional:softmax", called=False).danger is Danger.SAFE
        assert judged("torch.nn.functional:softmax").danger is Danger.UNKNOWN
        old = read_pickles(b"\x80\x02c__builtin__\neval\n.").pickles[0]
        new = read_pickles(b"\x80\x03c__builtin__\neval\n.").pickles[0]
        assert [found.qualified for found in find_reached(old)] == ["builtins.eval"]
        assert [found.qualified for found in find_reached(new)] == ["__builtin__.eval"]


def test_a_name_recalled_from_a_pickle_before_is_followed_as_its_own():
    first = b"\x80\x02ccloudpickle.cloudpickle\n_make_function\nq\x00."
    second = b"\x80\x02h\x00)Rq\x01)R."
    found = find_reached(read_pickles(first + second).pickles[1])
    dangers = {each.qualified: judge(each).does for each in found}
    assert dangers["cloudpickle.cloudpickle._make_function()"] == effects.FILE_CODE
