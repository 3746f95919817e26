#!/bin/bash -e
#SBATCH --job-name=mnist_DDP
#SBATCH --output=%x-%j.out
#SBATCH --partition=standard-g
#SBATCH --account=project_465000001
#SBATCH --time=00:10:00
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --cpus-per-task=7
#SBATCH --gpus-per-node=8
# Written by sifmod for the site lumi.

module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315
# tasks need the module's variables, also in a job that got none of the shell's (sbatch --export=NONE)
unset SLURM_EXPORT_ENV
: "${SIF:?the module is not a container module of sifmod}"

# srun does not inherit this from sbatch
export SRUN_CPUS_PER_TASK=7

# each task on the cores closest to its GPU
masks=0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000,0xfe0000000000

# export SIFMOD_TASK_GPUS=all shows each task all GPUs of its node's tasks, so that LOCAL_RANK is the number of its own; =own that one only, as number 0
srun --kill-on-bad-exit --cpu-bind="mask_cpu:$masks" \
    in-container \
    conda-python-distributed -u \
    mnist_DDP.py --gpu --modelpath model
