#!/bin/bash -e
#SBATCH --job-name=vllm
#SBATCH --output=%x-%j.out
#SBATCH --partition=standard-g
#SBATCH --time=1:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=56
#SBATCH --gpus-per-node=8
# Written by sifmod for the site lumi.

module load vLLM/0.33
# tasks need the module's variables, also in a job that got none of the shell's (sbatch --export=NONE)
unset SLURM_EXPORT_ENV
: "${SIF:?the module is not a container module of sifmod}"

# also if Slurm ends the container first, but not those of a server that this job has already
state=~/.local/state/sifmod/serve/$SLURM_JOB_ID
cache=${TMPDIR:-/tmp}/sifmod-$UID-$SLURM_JOB_ID
if [[ ! -e $state.key || ${SLURM_RESTART_COUNT:-0} != 0 ]]; then trap 'rm -rf "$state".* "$cache"{,.*}' EXIT; fi

# srun does not inherit this from sbatch
export SRUN_CPUS_PER_TASK=56

# the other nodes remove their caches themselves
srun --kill-on-bad-exit --wait=10 \
    bash -c 'trap : TERM; "$@"; status=$?; ((SLURM_PROCID == 0)) || rm -rf "${TMPDIR:-/tmp}/sifmod-$UID-$SLURM_JOB_ID"{,.*}; exit "$status"' - \
    in-container \
    serve --server=vllm --model=org/model --health=/health --limit=600 --nodes=2 --key-variable=VLLM_API_KEY '--several=--nnodes {nodes} --node-rank {rank} --master-addr {head} --master-port {join}' --others=--headless '--variable=VLLM_HOST_IP={host}' --offline -- \
    vllm serve org/model --host '{host}' --port '{port}'
