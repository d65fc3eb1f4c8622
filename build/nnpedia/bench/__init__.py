"""The bench: how long the library, its peers and the build take on this machine.

`python -m nnpedia.bench` (`make bench`) measures and writes `bench.json` into the cache folder; the
site shows it as a page when it is there. Nothing here is a promise: a page says the machine, the
number of runs and the noise with each number.
"""
