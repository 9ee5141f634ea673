"""From checkpoints that are pickles to safetensors and a sidecar, with no code run.

An `Origin` is one pickle and the places of its storages. Encoding walks its nodes into the
sidecar's tree and collects storages and the tensors that lie in them; laying out cuts each storage
into named pieces; writing streams these into safetensors files; proving reads them back.
"""
