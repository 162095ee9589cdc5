#!/bin/bash
# wmake and the headers of Debian's openfoam, which its packages leave out: they come from its source
# package (45 MB, which becomes 80 MB). Then builds this folder's library.
#
#     ./debian.sh FOLDER          once; again only builds
#
# The library is FOLDER/lib/libkubistOpenFOAM.so; Kubist's own library is found with pkg-config. apt
# reads lists of its own in FOLDER, so root is not needed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)

if [ ! -e "$folder/source/.ready" ]; then
  mkdir -p "$folder/apt/parts" "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
  . /etc/os-release
  cat > "$folder/apt/parts/source.sources" <<SOURCES
Types: deb-src
URIs: ${DEBIAN_MIRROR:-http://deb.debian.org/debian}
Suites: $VERSION_CODENAME
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
  options=(-qq -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$folder/apt/parts"
    -o "Dir::State::Lists=$folder/apt/lists" -o "Dir::Cache=$folder/apt/cache" -o APT::Sandbox::User=)
  apt-get "${options[@]}" update
  (cd "$folder" && apt-get "${options[@]}" source --download-only openfoam)
  rm -rf "$folder/source" && mkdir "$folder/source"
  tar -xf "$folder"/openfoam_*.orig.tar.* -C "$folder/source" --strip-components=1 \
    --wildcards '*/src/*.H' '*/src/*.C' '*/src/*/Make/*' '*/wmake/*'
  rm -rf "$folder"/openfoam_*.orig.tar.* "$folder/apt"
  touch "$folder/source/.ready"
fi

export WM_PROJECT=OpenFOAM WM_PROJECT_DIR=$folder/source WM_DIR=$folder/source/wmake
export WM_ARCH=linux64 WM_COMPILER=Gcc WM_COMPILE_OPTION=Opt WM_PRECISION_OPTION=DP WM_LABEL_SIZE=32
export WM_OPTIONS=linux64GccDPInt32Opt WM_OSTYPE=POSIX WM_MPLIB=SYSTEMOPENMPI
export FOAM_LIBBIN=/usr/lib FOAM_USER_LIBBIN=$folder/lib
export PATH=$WM_DIR:$PATH
mkdir -p "$FOAM_USER_LIBBIN" "$folder/bin"
# The MPI of Debian's OpenFOAM, whichever `mpicc` is the default.
ln -sf "$(command -v mpicc.openmpi)" "$folder/bin/mpicc"
export PATH=$folder/bin:$PATH
if [ ! -x "$WM_PROJECT_DIR/platforms/tools/linux64Gcc/wmkdepend" ]; then
  mkdir -p "$WM_PROJECT_DIR/platforms/tools/linux64Gcc"
  g++ -O1 -w -o "$WM_PROJECT_DIR/platforms/tools/linux64Gcc/wmkdepend" "$WM_DIR/src/wmkdepend.cc"
fi
for library in $(sed -n 's@.*-I$(LIB_SRC)/\(.*\)/lnInclude.*@\1@p' "$here/Make/options") \
    OpenFOAM OSspecific/POSIX; do
  [ -d "$WM_PROJECT_DIR/src/$library/lnInclude" ] || wmakeLnInclude "$WM_PROJECT_DIR/src/$library" > "$folder/links.log" 2>&1
done
# Built outside of the sources.
rm -rf "$folder/build" && cp -r "$here" "$folder/build"
cd "$folder/build" && wmake -s libso
