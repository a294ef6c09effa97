# coop, coopcheck, cooplower and cooprun with the GLSL compiler of Debian. `docker build -t coop .`, then
# `docker run --rm -v "$PWD:/work" coop coopcheck shader.comp`.
FROM rust:1-trixie AS build
COPY . /source
RUN cargo build --manifest-path /source/Cargo.toml --locked --profile dist -p coop-cli --bin coop

FROM debian:trixie-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends glslang-tools libvulkan1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /source/target/dist/coop /usr/local/bin/
RUN cd /usr/local/bin && for tool in coopcheck cooplower cooprun; do ln -s coop "$tool"; done
WORKDIR /work
CMD ["coopcheck"]
