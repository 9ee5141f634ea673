"""Train a small language model with the Transformers Trainer, from a configuration."""

import argparse
import os
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Text(Dataset):
    def __init__(self, length=32):
        with open(os.__file__, encoding="utf-8") as file:
            self.tokens = torch.tensor(list(file.read().encode()), dtype=torch.long)
        self.length = length

    def __len__(self):
        return 64

    def __getitem__(self, index):
        piece = self.tokens[index * self.length : (index + 1) * self.length]
        return {"input_ids": piece, "labels": piece}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", help="folder where checkpoints are written")
    parser.add_argument("--save-every", type=int, default=4)
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=args.checkpoint or folder,
            max_steps=args.steps,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            learning_rate=1e-3,
            warmup_steps=2,
            weight_decay=0.1,
            logging_steps=1,
            eval_strategy="steps",
            eval_steps=4,
            save_steps=args.save_every,
            seed=args.seed,
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        torch.manual_seed(args.seed)
        config = GPT2Config(
            vocab_size=256,
            n_positions=32,
            n_embd=32,
            n_layer=2,
            n_head=2,
            bos_token_id=0,
            eos_token_id=0,
        )
        model = GPT2LMHeadModel(config)
        data = Text()
        trainer = Trainer(
            model=model,
            args=arguments,
            train_dataset=data,
            eval_dataset=torch.utils.data.Subset(data, range(8)),
        )
        result = trainer.train(resume_from_checkpoint=args.resume)
        print(f"loss {result.training_loss:.6f}")
        for entry in trainer.state.log_history:
            if "loss" in entry:
                print(f"step {entry['step']} loss {entry['loss']}")


if __name__ == "__main__":
    main()
