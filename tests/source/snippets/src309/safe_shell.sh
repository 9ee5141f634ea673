# expect: none  (a comment, unset, the safe variable, 0, and a message)
#!/bin/sh
# export TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1
unset TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD
export TORCH_FORCE_WEIGHTS_ONLY_LOAD=1
TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=0 python train.py
echo "never set TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1"
