import sys
for t,bt,blk,kk in [('f16','f16',None,96),('bf16','bf16',None,96),('q4_0','f16',(32,18),96),('q8_0','f16',(32,34),96),('q4_k','f16',(256,144),512)]:
    M,N,K=72,40,kk
    o=f'''# A small product with edges, exact. Spec constants: invocations; BM, BN, BK; then WM, WN, stages and the shape of the
# matrices for the module with subgroup matrices. Variants are for the other modules.
workgroups = [3, 2, 1]
seed = 1
# M, N, K, strides of A, B, D.
push = [{{ values = [{M}, {N}, {K}, {K}, {K}, {M}] }}]
spec = {{ 0 = 32, 1 = 32, 2 = 32, 3 = 32 }}

[variant.khr]
full-subgroups = true
spec = {{ 4 = 16, 5 = 16, 6 = 2, 7 = 8, 8 = 8, 9 = 8 }}

[variant.khr-one-stage]
workgroups = [2, 1, 1]
full-subgroups = true
spec = {{ 0 = 128, 1 = 64, 2 = 64, 3 = 64, 4 = 16, 5 = 16, 6 = 1, 7 = 8, 8 = 8, 9 = 8 }}

[variant.scalar]
workgroups = [2, 1, 1]
spec = {{ 0 = 64, 1 = 64, 2 = 64, 3 = 32, 6 = 1 }}

[variant.scalar-two-stages]
workgroups = [1, 1, 1]
spec = {{ 0 = 128, 1 = 128, 2 = 64, 3 = {16 if not blk else 32}, 6 = 2 }}

'''
    if blk:
        o+=f'''[[buffer]]
name = "A"
binding = 0
type = "u8"
count = {M*K//blk[0]*blk[1]}
fill = {{ blocks = "{t}" }}
'''
    else:
        o+=f'''[[buffer]]
name = "A"
binding = 0
type = "{t}"
count = {M*K}
fill = {{ half-integers = [-1.0, 1.0] }}
row-stride = {K}
'''
    o+=f'''
[[buffer]]
name = "B"
binding = 1
type = "{bt}"
count = {N*K}
fill = {{ half-integers = [-1.0, 1.0] }}
row-stride = {K}

[[buffer]]
name = "D"
binding = 2
type = "f32"
count = {N*M}
fill = {{ constant = 99 }}
row-stride = {M}

[[expect]]
[expect.gemm]
m = {M}
n = {N}
k = {K}
a = {{ buffer = "A", stride = {K}{', format = "%s"'%t if blk else ''} }}
b = {{ buffer = "B", stride = {K}, layout = "column" }}
d = {{ buffer = "D", stride = {M}, layout = "column" }}
'''
    open(f'matmul_{t}.small.toml','w').write(o)
