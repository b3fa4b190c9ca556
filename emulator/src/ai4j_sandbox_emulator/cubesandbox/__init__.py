"""The CubeSandbox face: CubeAPI, CubeProxy and envd on one port, of today's servers or of older ones.

Read in this order: `servers`, `errors`, `requests`, `replies`, `routing`, `control`, `face`.
"""
