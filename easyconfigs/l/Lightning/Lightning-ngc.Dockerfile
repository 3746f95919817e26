# PyTorch Lightning on NVIDIA's PyTorch. NVIDIA's own builds must stay: pip is held to what the base image has.
ARG NGC_RELEASE=24.03
FROM nvcr.io/nvidia/pytorch:${NGC_RELEASE}-py3
ARG LIGHTNING_VERSION=2.4.0

LABEL software="Lightning" \
    software.version="${LIGHTNING_VERSION}" \
    software.source="https://github.com/Lightning-AI/pytorch-lightning"

# not "pip freeze": for what NVIDIA built it prints "name @ file:///...", which is no constraint
RUN constraints=/usr/local/share/base-constraints.txt \
    && python3 -m pip --disable-pip-version-check list --format=freeze >"$constraints" \
    && python3 -m pip --disable-pip-version-check install --no-cache-dir --constraint "$constraints" \
        lightning==${LIGHTNING_VERSION}

RUN constraints=/usr/local/share/base-constraints.txt \
    && python3 -c 'import lightning, torch; print("Lightning", lightning.__version__, "PyTorch", torch.__version__)' \
    && if python3 -m pip --disable-pip-version-check list --format=freeze | grep -vxFf - "$constraints"; then \
        echo 'these packages of the base image were replaced' >&2; \
        exit 1; \
    fi
