"""Loaders to be followed: made ahead in memory, made as they are read, decoded from files."""

from __future__ import annotations

import io

import torch
from PIL import Image
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

TOKENS, BATCH, VOCABULARY = 128, 32, 256
SIDE, IMAGES = 224, 64


class Tokens(Dataset):
    """Dictionaries of tokens, as a tokenizer makes them ahead."""

    def __init__(self, length):
        shape = (length, TOKENS)
        self.ids = torch.randint(0, VOCABULARY, shape)
        self.mask = torch.ones(shape, dtype=torch.int64)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        ids = self.ids[index]
        return {"input_ids": ids, "attention_mask": self.mask[index], "labels": ids.clone()}


class Images(Dataset):
    """Images in memory, as bytes; made into numbers as they are read."""

    def __init__(self, length):
        self.length = length
        self.pixels = torch.randint(0, 256, (32, 3, SIDE, SIDE), dtype=torch.uint8)
        self.labels = torch.randint(0, 10, (length,)).tolist()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return self.pixels[index % 32].float().sub_(127.5).div_(64), self.labels[index]


class Photographs(Dataset):
    """JPEG files of 500 x 375 pixels, decoded, cropped at random, scaled and flipped when read."""

    def __init__(self, length):
        self.length = length
        noise = torch.randint(0, 256, (16, 3, 24, 32), dtype=torch.uint8).float()
        smooth = functional.interpolate(noise, (375, 500), mode="bicubic").clamp_(0, 255)
        self.files = [encoded(each) for each in smooth.byte()]
        self.labels = torch.randint(0, 10, (length,)).tolist()

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        picture = Image.open(io.BytesIO(self.files[index % 16])).convert("RGB")
        left, top = (int(torch.randint(0, room, ())) for room in (200, 75))
        picture = picture.resize((SIDE, SIDE), box=(left, top, left + 300, top + 300))
        if torch.rand(()) < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
        pixels = pixels.view(SIDE, SIDE, 3).permute(2, 0, 1).float().sub_(127.5).div_(64)
        return pixels, self.labels[index]


def encoded(pixels):
    """Return an image, 3 x height x width bytes, as a JPEG file."""
    place = io.BytesIO()
    Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(place, "jpeg", quality=90)
    return place.getvalue()


def tensors(num_batches):
    shape = (num_batches * BATCH, TOKENS)
    data = TensorDataset(torch.randint(0, VOCABULARY, shape), torch.randint(0, VOCABULARY, shape))
    return DataLoader(data, batch_size=BATCH, shuffle=True)


def tokens(num_batches):
    return DataLoader(Tokens(num_batches * BATCH), batch_size=BATCH, shuffle=True, num_workers=2)


def images(num_batches):
    return DataLoader(Images(num_batches * IMAGES), batch_size=IMAGES, shuffle=True, num_workers=2)


def photographs(num_batches):
    data = Photographs(num_batches * IMAGES)
    return DataLoader(data, batch_size=IMAGES, shuffle=True, num_workers=2)
