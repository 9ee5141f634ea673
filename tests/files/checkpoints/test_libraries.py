"""Checkpoints as real libraries write them: nothing is found, and damage to them is."""

from __future__ import annotations

import logging
import shutil
import warnings

import pytest
import torch
import torch.distributed.checkpoint as dcp
from tests.files.checkpoints import runs

import everybit

transformers = pytest.importorskip("transformers")
LAYERS = 3


def small(**options):
    config = transformers.LlamaConfig(
        vocab_size=90, hidden_size=32, intermediate_size=48, num_hidden_layers=LAYERS,
        num_attention_heads=2, max_position_embeddings=32, **options,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory):
    """Three checkpoints of a Trainer."""
    folder = tmp_path_factory.mktemp("trainer")
    samples = [{"input_ids": (ids := torch.randint(0, 90, (8,))), "labels": ids} for _ in range(12)]
    options = transformers.TrainingArguments(
        output_dir=str(folder), max_steps=6, save_steps=2, per_device_train_batch_size=2,
        report_to=[], use_cpu=True, disable_tqdm=True, learning_rate=1e-2,
    )  # fmt: skip
    transformers.Trainer(model=small(), args=options, train_dataset=samples).train()
    return folder


def rules(path, **options):
    return {(f.rule, f.where.path) for f in everybit.verify(path, **options).findings}


def test_trainer(trainer):
    assert rules(trainer) == set()
    stats = everybit.verify(trainer).stats
    assert stats["whole"] == ["checkpoint-6", "checkpoint-4", "checkpoint-2"]
    for place in trainer.iterdir():
        assert rules(place) == set()
        assert everybit.verify(place, level="structure").ok


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("model.safetensors", "FIL106"), ("optimizer.pt", "FIL115"),
        ("trainer_state.json", "FIL106"),
    ],
)  # fmt: skip
def test_a_trainer_checkpoint_with_a_file_of_another(trainer, tmp_path, name, rule):
    folder = shutil.copytree(trainer, tmp_path / "t")
    shutil.copy(folder / "checkpoint-4" / name, folder / "checkpoint-6" / name)
    assert rules(folder) == {(rule, f"checkpoint-6/{name}")}
    assert everybit.verify(folder).stats["newest_whole"] == "checkpoint-4"


@pytest.mark.parametrize("tied", [True, False])
def test_save_pretrained(tmp_path, tied):
    model = small(tie_word_embeddings=tied)
    model.save_pretrained(tmp_path / "s", max_shard_size="30KB")
    assert len(list((tmp_path / "s").glob("*.safetensors"))) > 2
    assert rules(tmp_path / "s") == set()
    model.to(torch.bfloat16).save_pretrained(tmp_path / "whole")
    assert rules(tmp_path / "whole") == set()


def test_save_pretrained_of_other_layouts(tmp_path):
    made = [
        transformers.GPT2LMHeadModel(
            transformers.GPT2Config(
                vocab_size=90, n_embd=32, n_layer=2, n_head=2, n_positions=16
            )
        ),
        transformers.BertForMaskedLM(
            transformers.BertConfig(
                vocab_size=90, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                num_attention_heads=2,
            )
        ),
        transformers.T5ForConditionalGeneration(
            transformers.T5Config(
                vocab_size=90, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=2
            )
        ),
    ]  # fmt: skip
    for number, model in enumerate(made):
        model.save_pretrained(tmp_path / str(number), max_shard_size="60KB")
        assert rules(tmp_path / str(number)) == set()


def test_lightning(tmp_path):
    lightning = pytest.importorskip("lightning")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(12, 32), torch.nn.BatchNorm1d(32), torch.nn.Linear(32, 2)
            )

        def training_step(self, batch):
            return self.net(batch[0]).square().mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), 1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    save = lightning.pytorch.callbacks.ModelCheckpoint(
        dirpath=tmp_path, save_last=True, save_top_k=-1, every_n_train_steps=2,
        filename="{epoch}-{step}",
    )  # fmt: skip
    data = torch.utils.data.TensorDataset(torch.randn(24, 12))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lightning.Trainer(
            max_epochs=2, callbacks=[save], logger=False, accelerator="cpu",
            enable_progress_bar=False, enable_model_summary=False,
        ).fit(Module(), torch.utils.data.DataLoader(data, 8))  # fmt: skip
    assert rules(tmp_path) == set()
    verdict = everybit.verify(tmp_path)
    assert verdict.ok
    assert verdict.stats["newest_whole"] == "epoch=1-step=6.ckpt"
    assert rules(tmp_path / "last.ckpt") == set()


def test_accelerate(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    run = runs.Run()
    run.model, run.optimizer, run.schedule = accelerator.prepare(
        run.model, run.optimizer, run.schedule
    )
    for step in (3, 6, 9):
        run.train(step - run.step)
        accelerator.save_state(str(tmp_path / f"step_{step}"))
    assert rules(tmp_path) == set()
    assert everybit.verify(tmp_path).stats["newest_whole"] == "step_9"


@pytest.fixture
def distributed(tmp_path):
    torch.manual_seed(0)
    run = runs.Run(lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), torch.nn.Linear(12, 12))
    for step in (2, 4, 6):
        run.train(step - run.step)
        state = {"model": run.model.state_dict(), "optim": run.optimizer.state_dict(), "step": step}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dcp.save(state, checkpoint_id=str(tmp_path / f"step-{step}"))
    return tmp_path


def test_dcp(distributed):
    assert rules(distributed) == set()
    assert everybit.verify(distributed).stats["newest_whole"] == "step-6"


def test_dcp_files_that_are_missing(distributed):
    (distributed / "step-6" / "__0_0.distcp").rename(distributed / "step-6" / "__5_0.distcp")
    assert ("FIL103", "step-6/__0_0.distcp") in rules(distributed)
    (distributed / "step-6" / ".metadata").unlink()
    assert rules(distributed) == {("FIL103", "step-6/.metadata")}
    assert everybit.verify(distributed).stats["newest_whole"] == "step-4"


def test_a_dcp_file_of_the_step_before(distributed):
    shutil.copy(distributed / "step-4" / "__0_0.distcp", distributed / "step-6" / "__0_0.distcp")
    assert ("FIL106", "step-6/__0_0.distcp") in rules(distributed)
