# The n-body sample of NVIDIA's CUDA samples, in the image that it was compiled in. The samples have CUDA's version.
ARG CUDA_VERSION=12.4.1
FROM nvcr.io/nvidia/cuda:${CUDA_VERSION}-devel-ubuntu22.04
ARG CUDA_VERSION=12.4.1

LABEL software="nbody" \
    software.version="${CUDA_VERSION}" \
    software.source="https://github.com/NVIDIA/cuda-samples"

ARG DEBIAN_FRONTEND=noninteractive
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        ca-certificates curl freeglut3-dev libgl1-mesa-dev libglu1-mesa-dev \
    && rm -rf /var/lib/apt/lists/*

# without the libraries make only says so, and succeeds: then there is nothing to install here
WORKDIR /usr/local/src
RUN url=https://github.com/NVIDIA/cuda-samples/archive/refs/tags/v${CUDA_VERSION}.tar.gz \
    && curl --fail --location --silent --show-error --output samples.tar.gz "$url" \
    && tar -xzf samples.tar.gz \
    && cd cuda-samples-${CUDA_VERSION}/Samples/5_Domain_Specific/nbody \
    && make \
    && install -m 755 nbody /usr/local/bin/nbody

RUN if ldd /usr/local/bin/nbody | grep 'not found'; then exit 1; fi; nbody -help

ENTRYPOINT ["nbody"]
