"""Names of installed libraries that are dangerous in a pickle, and what each would do.

Sources: the libraries' own code (torch 1.0 to 2.13, NumPy 1.17 to 2.4, Transformers up to 5.24,
joblib 1.5, pandas 3, SymPy 1.14); the payloads of published advisories against picklescan,
modelscan and fickling, many of which use a function of an installed library that runs text.
"""

from __future__ import annotations

from typing import Final

from everybit.files.policy import effects

#: `{what it does: modules}`: every name in these modules, and in the modules below them.
MODULES: Final = {
    effects.INSTALLS: (
        "pip setuptools pkg_resources wheel easy_install conda poetry numpy.distutils numpy.f2py "
        "torch.utils.cpp_extension torch.utils.hipify pyximport Cython cython uv build virtualenv"
    ),
    effects.CODE: (
        "IPython ipykernel numpy.testing numpy.ma.testutils torch.testing torch.utils.bottleneck "
        "torch._inductor torch._dynamo torch.compiler torch.fx torch._functorch torch._export "
        "torch.export torch.jit._script torch.jit.frontend torch.jit.unsupported_tensor_ops "
        "torch.package torch.cuda.jiterator torch.utils.benchmark torchgen functorch.compile "
        "torch.onnx torch.utils._sympy triton numba cupy mako jinja2 asteval RestrictedPython "
        "pytest _pytest nose fire invoke bpython ptpython code_generator execjs js2py "
        "transformers.dynamic_module_utils transformers.utils.fx transformers.tools "
        "transformers.agents smolagents langchain_experimental"
    ),
    effects.PROCESS: (
        "torch.utils.collect_env torch.distributed.run torch.distributed.launch "
        "torch.distributed.elastic torch.distributed.launcher torch.multiprocessing "
        "torch.distributed.rpc torch.utils.model_zoo.os sh plumbum pexpect fabric paramiko "
        "ptyprocess psutil billiard loky joblib.externals.loky joblib.parallel celery execnet "
        "accelerate.commands accelerate.launchers transformers.commands huggingface_hub.commands "
        "huggingface_hub.cli git gitdb nbconvert papermill deepspeed.launcher"
    ),
    effects.LOADS: (
        "dill jsonpickle cloudpickle.compat joblib.numpy_pickle joblib.numpy_pickle_utils "
        "joblib.numpy_pickle_compat joblib.memory yaml ruamel srsly numpy.lib.npyio "
        "numpy.lib._npyio_impl numpy.lib.format numpy.lib._format_impl torch.serialization "
        "torch.utils._config_module torch.jit._serialization "
        "torch.distributed.checkpoint.filesystem.torch pandas.io pandas.compat.pickle_compat "
        "keras.models keras.saving tensorflow tf_keras mlflow skops hickle klepto sklearn.externals"
    ),
    effects.NATIVE: (
        "torch.ops torch.classes torch._ops torch._classes torch.library torch._custom_ops "
        "numpy.ctypeslib cffi pycuda pyopencl llvmlite pybind11 onnxruntime tensorrt"
    ),
    effects.NETWORK: (
        "requests httpx aiohttp urllib3 httplib2 pycurl websocket websockets boto3 botocore "
        "s3transfer paramiko grpc zmq redis pymongo psycopg2 sqlalchemy tornado twisted flask "
        "fastapi uvicorn django gradio streamlit wandb comet_ml neptune"
    ),
    effects.DOWNLOADS: (
        "torch.hub torch.utils.model_zoo huggingface_hub datasets "
        "gdown wget smart_open fsspec s3fs gcsfs webdataset"
    ),
    effects.EXPRESSIONS: (
        "sympy numexpr pandas.core.computation pandas.eval simpleeval py_expression_eval"
    ),
    effects.CALLS: "hydra toolz cytoolz tree_math apscheduler schedule",
}

_NUMPY_FILES: Final = (
    "load save savez savez_compressed loadtxt savetxt genfromtxt fromfile memmap DataSource "
    "fromregex tofile recfromcsv recfromtxt"
)

#: `{module: {what it does: names}}`
NAMES: Final = {
    "torch": {
        effects.LOADS: "load",
        effects.FILES: "save from_file",
        effects.CODE: "compile vmap",
        effects.SYSTEM: "set_default_device set_default_dtype set_default_tensor_type",
        effects.PROCESS: "_running_with_deploy",
    },
    **{
        module: {
            effects.ATTRIBUTES: "_setattr _getattribute _get_attr _setitems",
            effects.IMPORTS: "_import_module _create_namedtuple",
            effects.CODE: "_eval_repr",
            effects.FILES: "_create_filehandle _create_ftype _create_stringi _create_stringo",
            effects.SYSTEM: "_create_lock _create_rlock _locate_function",
        }
        for module in ("dill._dill", "dill.dill")
    },
    "torch.storage": {
        effects.LOADS: "_load_from_bytes",
        effects.FILES: (
            "UntypedStorage.from_file UntypedStorage._write_file TypedStorage.from_file "
            "UntypedStorage._new_shared_filename_cpu UntypedStorage._new_using_filename_cpu"
        ),
    },
    "torch.serialization": {effects.FILES: "dump_patches"},
    "torch._utils": {effects.IMPORTS: "_import_dotted_name", effects.LOADS: "_get_obj_from_str"},
    "torch.utils.data": {effects.CALLS: "datapipes _utils"},
    "torch.jit": {effects.LOADS: "load jit_module_from_flatbuffer", effects.CODE: "script trace"},
    "torch._C": {
        effects.LOADS: (
            "import_ir_module import_ir_module_from_buffer _import_ir_module_from_package"
        ),
        effects.NATIVE: "_load_library",
        effects.FILES: (
            "PyTorchFileReader PyTorchFileWriter _VariableFunctionsClass.from_file "
            "_VariableFunctions.from_file"
        ),
    },
    "torch.utils.data.datapipes.utils.decoder": {
        effects.LOADS: "basichandlers handle_extension Decoder",
    },
    "torch.distributed": {effects.NETWORK: "init_process_group TCPStore FileStore"},
    "numpy": {effects.FILES: _NUMPY_FILES, effects.CALLS: "fromfunction vectorize frompyfunc"},
    "numpy.lib._datasource": {effects.FILES: "DataSource open Repository"},
    "numpy.lib": {effects.FILES: "DataSource"},
    "numpy.core.records": {effects.FILES: "fromfile"},
    "numpy.core.memmap": {effects.FILES: "memmap"},
    "numpy.ndarray": {effects.FILES: "tofile dump"},
    "numpy.rec": {effects.FILES: "fromfile"},
    "numpy.core.multiarray": {effects.FILES: "fromfile"},
    "numpy.lib.function_base": {effects.CALLS: "vectorize"},
    "numpy.lib.shape_base": {effects.CALLS: "apply_along_axis apply_over_axes"},
    "scipy.io": {effects.LOADS: "loadmat savemat"},
    "pandas": {
        effects.LOADS: "read_pickle",
        effects.EXPRESSIONS: "eval",
        effects.FILES: "read_csv read_hdf read_parquet read_json read_excel read_html read_sql",
    },
    "joblib": {effects.LOADS: "load dump", effects.CALLS: "Parallel delayed Memory"},
    "cloudpickle": {effects.LOADS: "load loads"},
    "cloudpickle.cloudpickle": {
        effects.LOADS: "load loads",
        effects.IMPORTS: "subimport",
        effects.SYSTEM: "dynamic_subimport register_pickle_by_value",
    },
    "cloudpickle.cloudpickle_fast": {
        effects.LOADS: "load loads",
        effects.IMPORTS: "subimport",
        effects.SYSTEM: "dynamic_subimport",
    },
    "transformers": {effects.DOWNLOADS: "pipeline AutoModel AutoTokenizer AutoConfig"},
    "transformers.pipelines": {effects.DOWNLOADS: "pipeline", effects.PROCESS: "audio_utils"},
    "transformers.utils": {effects.DOWNLOADS: "hub cached_file", effects.IMPORTS: "import_utils"},
    "omegaconf": {effects.FILES: "OmegaConf.load OmegaConf.save"},
    "omegaconf.omegaconf": {effects.FILES: "OmegaConf.load OmegaConf.save"},
    "lightning.pytorch.core.saving": {effects.LOADS: "load_hparams_from_yaml _load_state"},
    "nltk": {effects.DOWNLOADS: "download", effects.LOADS: "data"},
    "nltk.data": {effects.LOADS: "load find"},
    "click": {effects.BROWSER: "launch edit"},
    "PIL.Image": {effects.FILES: "open"},
    "PIL.ImageMath": {effects.EXPRESSIONS: "eval unsafe_eval"},
    "PIL.ImageShow": {effects.BROWSER: "show"},
    "keras": {effects.LOADS: "models saving", effects.DOWNLOADS: "utils"},
    "keras.utils": {effects.DOWNLOADS: "get_file"},
    "pydantic.utils": {effects.IMPORTS: "import_string"},
    "pydantic.v1.utils": {effects.IMPORTS: "import_string"},
    "sklearn.utils": {effects.CALLS: "parallel"},
    "sklearn.utils.parallel": {effects.CALLS: "Parallel delayed"},
    "ray": {effects.PROCESS: "init remote get", effects.LOADS: "cloudpickle"},
    "ray.cloudpickle": {effects.LOADS: "load loads"},
    "pyspark.cloudpickle": {effects.LOADS: "load loads"},
    "statsmodels.iolib.smpickle": {effects.LOADS: "load_pickle"},
}
