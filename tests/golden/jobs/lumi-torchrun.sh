#!/bin/bash -e
#SBATCH --job-name=package.train
#SBATCH --output=%x-%j.out
#SBATCH --partition=standard-g
#SBATCH --time=1:00:00
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=56
#SBATCH --gpus-per-node=8
# Written by sifmod for the site lumi.

module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315
# tasks need the module's variables, also in a job that got none of the shell's (sbatch --export=NONE)
unset SLURM_EXPORT_ENV
: "${SIF:?the module is not a container module of sifmod}"

# srun does not inherit this from sbatch
export SRUN_CPUS_PER_TASK=56

srun --kill-on-bad-exit \
    in-container \
    torchrun-distributed --nproc_per_node=8 \
    -m package.train
