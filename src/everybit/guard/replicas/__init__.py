"""Replicas: copies of one model on several ranks are compared while the job runs.

A step's digests go to all ranks in one small all-gather over a group of the Guard's own
(`exchange`). Which tensors are copies of which is laid down once (`layout`, `copies`); where copies
part, the ranks put the details on a notice board (`board`), and the rank that is wrong tells
and, where asked, heals itself from one that is right (`case`, `mending`).
"""
