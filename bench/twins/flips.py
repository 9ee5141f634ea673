"""Write one flipped bit into a run, at the place and step that a twin names."""

from __future__ import annotations

import torch


def flip_in(tensor: torch.Tensor, element: int, bit: int) -> None:
    """Flip a bit of one element in memory, past torch: no version counter moves."""
    values = tensor.detach().numpy().reshape(-1) if tensor.is_contiguous() else None
    if values is None:
        raise ValueError("flips need contiguous memory")
    words = values.view({8: "uint64", 4: "uint32", 2: "uint16", 1: "uint8"}[values.itemsize])
    words[element % len(words)] ^= words.dtype.type(1 << (bit % (8 * values.itemsize)))


class Flipper:
    """Carries out a run's flip; nothing where it has none."""

    def __init__(self, flip, model, optimizer) -> None:
        self.flip, self.model, self.optimizer, self.step = flip, model, optimizer, 0
        self._undo = None
        if flip is not None and flip.place in ("activation", "output gradient"):
            self._wrap(model.get_submodule(flip.module))

    def before_step(self, batch) -> None:
        """Flip what rests between steps, or the batch."""
        flip = self._due("weight", "buffer", "moment", "embedding row", "batch", "rng")
        if flip is None:
            return
        if flip.place == "batch":
            flip_in(batch, flip.element, flip.bit)
        elif flip.place == "rng":
            state = torch.get_rng_state()
            # Past the header: 624 words of 32 bits, each in 8 bytes, make the next numbers.
            state[24 + 8 * (flip.element % 624) + flip.bit % 4] ^= 1 << (flip.bit % 8)
            torch.set_rng_state(state)
        else:
            flip_in(self._resting(flip), flip.element, flip.bit)

    def _resting(self, flip) -> torch.Tensor:
        module = self.model.get_submodule(flip.module)
        if flip.place == "buffer":
            return module.running_mean
        if flip.place == "moment":
            return self.optimizer.state[module.weight]["exp_avg"]
        return module.weight

    def loss(self, loss: torch.Tensor) -> None:
        """Flip the loss before its backward pass."""
        flip = self._due("loss")
        if flip is not None:
            flip_in(loss, 0, flip.bit)

    def after_backward(self) -> None:
        """Flip a gradient before its update."""
        flip = self._due("gradient")
        if flip is not None:
            flip_in(self.model.get_submodule(flip.module).weight.grad, flip.element, flip.bit)

    def _due(self, *places: str):
        flip = self.flip
        return (
            flip if flip is not None and flip.step == self.step and flip.place in places else None
        )

    def _wrap(self, module) -> None:
        """Let the module itself compute the wrong bit: whoever looks at its output sees it."""
        forward = module.forward

        def wrong(*args, **kwargs):
            out = forward(*args, **kwargs)
            if self._due("activation"):
                flip_in(out, self.flip.element, self.flip.bit)
            elif self._due("output gradient") and out.requires_grad:
                out.register_hook(self._wrong_gradient)
            return out

        module.forward = wrong

    def _wrong_gradient(self, gradient):
        wrong = gradient.detach().clone(memory_format=torch.contiguous_format)
        flip_in(wrong, self.flip.element, self.flip.bit)
        return wrong
