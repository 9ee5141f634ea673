from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.files.checkpoints import runs


def rewrite(folder, **config):
    (folder / "config.json").write_text(json.dumps(runs.CONFIG | config))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("vocab_size", 48), ("hidden_size", 16), ("num_hidden_layers", 5),
        ("intermediate_size", 20),
    ],
)  # fmt: skip
def test_a_config_of_another_model_is_one_finding(tmp_path, only, key, value):
    runs.save_sharded(tmp_path / "m", runs.llama(), **{key: value})
    for level in ("structure", "full"):
        finding = only(tmp_path / "m", level=level)
        assert finding.rule == "FIL114"
        assert (finding.evidence["config_key"], finding.evidence["config_value"]) == (key, value)
        assert finding.where.tensor in runs.llama()


def test_a_config_of_a_whole_other_model_is_one_finding_too(tmp_path, only):
    other = {"vocab_size": 99, "hidden_size": 16, "num_hidden_layers": 9, "intermediate_size": 50}
    runs.save_sharded(tmp_path / "m", runs.llama(), **other)
    assert len(only(tmp_path / "m").evidence["also"]) == 3


@pytest.mark.parametrize(
    "config",
    [
        {"vocab_size": 33},  # rows padded to a multiple
        {"num_hidden_layers": 3},  # a layer more, for predicting further tokens
        {"embedding_size": 8, "hidden_size": 99},  # an embedding of a width of its own
        {"intermediate_size": 12},  # layers twice as wide on purpose
        {"intermediate_size": [24, 24, 12, 12], "vocab_size": None, "hidden_size": "8"},
        {"vocab_size": True, "num_hidden_layers": -1},
        {"text_config": {"vocab_size": 40}, "vocab_size": 7},
    ],
)
def test_harmless_configs(tmp_path, found, config):
    runs.save_sharded(tmp_path / "m", runs.llama(), **config)
    assert found(tmp_path / "m", level="structure") == set()


def test_towers_and_experts_have_sizes_of_their_own(tmp_path, found):
    tensors = runs.llama()
    tensors["vision_tower.layers.0.mlp.up_proj.weight"] = torch.ones(7, 5)
    tensors["model.layers.1.mlp.experts.0.gate_proj.weight"] = torch.ones(7, 8)
    runs.save_sharded(tmp_path / "m", tensors)
    assert found(tmp_path / "m") == set()


def test_an_encoder_and_a_decoder_may_have_any_number_of_layers(tmp_path, found):
    made = {f"model.decoder.layers.{i}.fc1.weight": torch.ones(4, 4) for i in range(2)}
    made |= {f"model.encoder.layers.{i}.fc1.weight": torch.ones(4, 4) for i in range(3)}
    runs.save_sharded(tmp_path / "m", made, num_hidden_layers=6)
    assert found(tmp_path / "m") == set()


def test_a_config_in_no_language_raises_nothing(tmp_path, found):
    runs.save_sharded(tmp_path / "m", runs.llama())
    (tmp_path / "m" / "config.json").write_text("[1]")
    assert found(tmp_path / "m", level="structure") == set()
    for text in ("", "[" * 100_000, "\0\xff"):
        (tmp_path / "m" / "config.json").write_text(text)
        assert found(tmp_path / "m", level="structure") == {("FIL107", "config.json")}


def test_tied_and_untied_heads(tmp_path, found, only):
    tensors = runs.llama()
    head = tensors.pop("lm_head.weight")
    runs.save_sharded(tmp_path / "m", tensors, tie_word_embeddings=True)
    assert found(tmp_path / "m") == set()
    rewrite(tmp_path / "m", tie_word_embeddings=False)
    assert only(tmp_path / "m").evidence["config_key"] == "tie_word_embeddings"
    rewrite(tmp_path / "m", tie_word_embeddings=False, architectures=["LlamaModel"])
    assert found(tmp_path / "m") == set()
    embedding = tensors["model.embed_tokens.weight"].clone()
    runs.save_sharded(
        tmp_path / "n", tensors | {"lm_head.weight": embedding}, tie_word_embeddings=True
    )
    assert found(tmp_path / "n") == set()
    runs.save_sharded(tmp_path / "o", tensors | {"lm_head.weight": head}, tie_word_embeddings=True)
    assert only(tmp_path / "o").where.tensor == "lm_head.weight"
    assert found(tmp_path / "o", level="structure") == set()


def adapter(rank, layers=2):
    above = "base_model.model.model.layers"
    return {
        f"{above}.{i}.self_attn.q_proj.lora_{side}.weight": torch.ones(
            (rank, 8) if side == "A" else (8, rank)
        )
        for i in range(layers)
        for side in "AB"
    }


def test_an_adapter_has_the_rank_of_its_config(tmp_path, found, only):
    save_file(adapter(4), tmp_path / "adapter_model.safetensors")
    config = tmp_path / "adapter_config.json"
    config.write_text(json.dumps({"peft_type": "LORA", "r": 4}))
    assert found(tmp_path) == set()
    config.write_text(json.dumps({"peft_type": "LORA", "r": 8}))
    finding = only(tmp_path)
    assert (finding.rule, finding.evidence["config_value"]) == ("FIL114", 8)
    for harmless in (
        {"peft_type": "LORA", "r": 8, "rank_pattern": {"q_proj": 4}},
        {"peft_type": "IA3", "r": 8},
        {"peft_type": "LORA"},
    ):
        config.write_text(json.dumps(harmless))
        assert found(tmp_path) == set()


def test_a_config_says_nothing_where_a_shard_is_missing(tmp_path, found):
    shards = runs.save_sharded(tmp_path / "m", runs.llama())
    shards[2].unlink()
    assert found(tmp_path / "m") == {("FIL103", shards[2].name)}
    assert load_file(shards[0])


def test_an_image_model_counts_its_blocks_as_it_likes(tmp_path, found):
    made = {f"encoder.blocks.{i}.conv.weight": torch.ones(4, 4) for i in range(4)}
    runs.save_sharded(tmp_path / "m", made, shards=2, num_hidden_layers=16)
    assert found(tmp_path / "m") == set()


def test_two_vocabularies(tmp_path, found):
    runs.save_sharded(tmp_path / "m", runs.llama(), vocab_size=99, decoder_vocab_size=40)
    assert found(tmp_path / "m") == set()


def test_layers_of_several_widths(tmp_path, found):
    tensors = runs.llama()
    tensors["model.layers.2.mlp.gate_proj.weight"] = torch.ones(20, 8)
    runs.save_sharded(tmp_path / "m", tensors)
    assert found(tmp_path / "m") == set()


def test_an_embedding_in_parts_is_projected_to_the_width(tmp_path, found):
    tensors = runs.llama()
    tensors["model.embed_tokens.word_embeddings.weight"] = torch.randn(40, 32)
    del tensors["model.embed_tokens.weight"]
    runs.save_sharded(tmp_path / "m", tensors)
    assert found(tmp_path / "m", level="structure") == set()


def test_a_projected_embedding(tmp_path, found, only):
    tensors = runs.llama() | {"model.embed_tokens.weight": torch.randn(40, 32)}
    runs.save_sharded(tmp_path / "m", tensors)
    assert only(tmp_path / "m", level="structure").evidence["config_key"] == "hidden_size"
    runs.save_sharded(tmp_path / "n", tensors | {"model.project_in.weight": torch.randn(8, 32)})
    assert found(tmp_path / "n", level="structure") == set()


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    ("text", "said"),
    [("", "empty"), ("\0" * 300, "zeros"), ('{"a": 1, "b', "no JSON"), ("<html>", "no JSON")],
)
def test_a_document_that_cannot_be_read(tmp_path, only, name, text, said):
    runs.save_sharded(tmp_path / "m", runs.llama())
    (tmp_path / "m" / name).write_text(text)
    finding = only(tmp_path / "m", level="structure")
    assert (finding.rule, finding.where.path) == ("FIL107", name)
    assert said in finding.message


def test_documents_that_are_nobodys_business(tmp_path, found):
    runs.save_sharded(tmp_path / "m", runs.llama())
    (tmp_path / "m" / "generation_config.json").write_text('{"temperature": NaN}')
    (tmp_path / "m" / "notes.json").write_text("// not for loaders")
    (tmp_path / "editor").mkdir()
    (tmp_path / "editor" / "config.json").write_text("// with comments")
    assert found(tmp_path, level="structure") == set()
