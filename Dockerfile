# DIL on Spark, from the registries of Debian and PyPI alone: docker build --tag dil-spark .
# Python and Java are those of one Debian release; requirements.txt pins every package by hash.
ARG IMAGE=debian:bookworm-slim

FROM ${IMAGE} AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3.11 python3.11-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3.11 -m venv /opt/dil
WORKDIR /src
# The packages first: this layer is built again only when the lock changes.
COPY requirements.txt ./
RUN /opt/dil/bin/pip install --no-cache-dir --require-hashes --requirement requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY connectors ./connectors
COPY dil ./dil
RUN /opt/dil/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /src/dist . \
    && /opt/dil/bin/pip install --no-cache-dir --no-deps /src/dist/*.whl

FROM ${IMAGE}
# Slim images lack the folder that Java's package links its manual pages into.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates openjdk-17-jre-headless python3.11 tini \
    && rm -rf /var/lib/apt/lists/*
# Spark needs a user with a name. Files on volumes belong to this one.
ARG UID=10001
RUN useradd --create-home --uid "${UID}" dil \
    && mkdir /work \
    && chown dil /work
COPY --from=build /opt/dil /opt/dil
ENV PATH=/opt/dil/bin:$PATH PYTHONUNBUFFERED=1
USER dil
WORKDIR /work
# tini ends the children of Spark that lost their parent, and hands signals on.
ENTRYPOINT ["tini", "--", "dil"]
CMD ["--help"]
