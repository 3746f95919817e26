#!/bin/bash -e
#SBATCH --job-name=train
#SBATCH --output=%x-%j.out
#SBATCH --time=1:00:00
#SBATCH --nodes=1000
#SBATCH --ntasks-per-node=8
# Written by sifmod for the site test.

module load PyTorch/2.2.0-rocm-5.6.1-python-3.10-singularity-20240315
# tasks need the module's variables, also in a job that got none of the shell's (sbatch --export=NONE)
unset SLURM_EXPORT_ENV
: "${SIF:?the module is not a container module of sifmod}"

srun --kill-on-bad-exit \
    in-container \
    conda-python-distributed -u \
    train.py
