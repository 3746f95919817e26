#!/bin/bash -e
#SBATCH --job-name=my_script
#SBATCH --output=%x-%j.out
#SBATCH --time=1:00:00
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=2
# Written by sifmod for the site it's #SBATCH --nodes=9.

module load Python/3.11
# tasks need the module's variables, also in a job that got none of the shell's (sbatch --export=NONE)
unset SLURM_EXPORT_ENV
: "${SIF:?the module is not a container module of sifmod}"

srun --kill-on-bad-exit \
    in-container \
    conda-python-distributed -u \
    'my script.py' 'a b' 'it'"'"'s' '"$(touch here)"' '`id`' 'new
line' '*' '' '\' 'é' -u '#SBATCH --nodes=9'
