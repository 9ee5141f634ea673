"""Who says what files hold: signed manifests, signing bundles, lists of SHA-256 digests.

keys               Ed25519 and ECDSA keys from files
manifest_signature the signature of a manifest, beside it
bundle             OpenSSF model-signing bundles
sums               `SHA256SUMS` and the like
expected           the digests that any of these expect of a file
"""
