#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# web/dev/pictures.sh BUILD FOLDER: makes docs/screenshots anew. FOLDER is where the program is built and recorded: its path is
# in the pictures. Needs Chromium and, to make them small, ImageMagick.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
heapgauge=$(realpath "$1")/heapgauge
folder=$2
out=$here/../../docs/screenshots

mkdir -p "$folder" "$out"
cp "$here/store.cc" "$folder"
cd "$folder"
# Of a shared libstdc++ without symbols, some frames would have no name.
g++ -g -O2 -pthread -static-libstdc++ store.cc -o store
"$heapgauge" record -q -o store.hg -- ./store
mkdir -p old
g++ -g -O2 -pthread -static-libstdc++ -DENTRIES=3000 -DSESSION=8 store.cc -o old/store
"$heapgauge" record -q -o old.hg -- old/store

shoot() { # views... ; the page of $files
	PORT=8149 node "$here/serve.mjs" "$heapgauge" $files >serve.log 2>&1 &
	local server=$!
	until grep -q 127.0.0.1:8149 serve.log; do sleep 0.1; done
	node "$here/shots.mjs" http://127.0.0.1:8149/ shots "$@"
	kill "$server"
	wait "$server" || true
}

files="store.hg --against old.hg"
shoot start "time" 'compare=compare?compare=1' 'difference=flame?compare=1' threads 'handover=threads?tab=handover' 'processes=threads?tab=processes' run 'lifetimes=sizes?tab=both' sizes \
	"source=source?path=$(printf %s "$folder/store.cc" | sed 's#/#%2F#g')"
shoot flame 'pivot=flame?pivot=serve%28int%29' tree 'sites=sites?cost=total' 'owners=sites?by=own'

# The tutorials', in one theme: docs/pictures.
examples=$here/../../examples
pictures=$here/../../docs/pictures
mkdir -p "$pictures"
cc -g -o leak "$examples/leak.c"
cc -g -o peak "$examples/peak.c"
cc -g -o cache "$examples/cache.c"
c++ -g -O1 -o temporaries "$examples/temporaries.cpp"
for name in leak peak temporaries cache; do
	"$heapgauge" record -q -o "$name.hg" -- "./$name" >/dev/null
done
for picture in 'leak=flame?cost=leaked' 'peak=time' 'temporaries=flame?cost=temporary' 'cache=flame?cost=leaked'; do
	name=${picture%%=*}
	"$heapgauge" report "$name.hg" --format html -o "$name.html"
	THEMES=light SIZES=1 node "$here/shots.mjs" "file://$PWD/$name.html" tutorials "$picture"
	node "$here/shrink.mjs" "tutorials/$name-light.png" "$pictures/$name.png"
done

for picture in shots/*.png; do
	node "$here/shrink.mjs" "$picture" "$out/$(basename "$picture")"
done
