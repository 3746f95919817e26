#!/bin/bash
#SBATCH --job-name=serve
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --time=1:00:00
# A server of a model as centres' guides let users write it, for comparison: sbatch serve-by-hand.sh MODULE COMMAND...
# It asks Slurm, the node and the server what `sifmod sbatch --serve` asks.
set -euo pipefail
module_name=$1
shift
module load "$module_name"

# caches beside the job
export HF_HOME=$SLURM_SUBMIT_DIR/.cache/huggingface
cache=${TMPDIR:-/tmp}/serve-$USER-$SLURM_JOB_ID
mkdir -p "$HF_HOME"
mkdir -m 700 "$cache"
export VLLM_CACHE_ROOT=$cache TRITON_CACHE_DIR=$cache TORCHINDUCTOR_CACHE_DIR=$cache

# where the server listens
head_node=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
head_address=$(srun --nodes=1 --ntasks=1 -w "$head_node" getent ahostsv4 "$head_node" | awk '{ print $1; exit }')
port=$((20000 + SLURM_JOB_ID % 10000))
while ss -ltn | grep -q ":$port "; do
    port=$((port + 1))
done

# the key
umask 077
state=$HOME/.serve-$SLURM_JOB_ID
mkdir -p "$state"
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$state/key"
VLLM_API_KEY=$(<"$state/key")
export VLLM_API_KEY

server=
finish() {
    rm -rf "$state"
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    wait || true
}
trap finish EXIT
trap 'exit 143' TERM

srun --nodes=1 --ntasks=1 -w "$head_node" singularity exec "$SIF" "$@" --host "$head_address" --port "$port" \
    >"$SLURM_SUBMIT_DIR/server-$SLURM_JOB_ID.log" 2>&1 &
server=$!

# readiness
for ((try = 0; try < 1800; try++)); do
    if curl --silent --fail --max-time 2 "http://$head_address:$port/health" >/dev/null; then
        break
    elif ! kill -0 "$server" 2>/dev/null; then
        echo "the server ended:" >&2
        tail -n 20 "$SLURM_SUBMIT_DIR/server-$SLURM_JOB_ID.log" >&2
        exit 1
    fi
    sleep 1
done
printf 'http://%s:%s\n' "$head_node" "$port" >"$state/url"
echo "ready: $(<"$state/url")"
echo "ssh -N -L $port:$head_node:$port $SLURM_SUBMIT_HOST"
wait "$server"
