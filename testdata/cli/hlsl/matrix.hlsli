// Matrices of 8 x 8 halves by inline SPIR-V: of SPV_KHR_cooperative_matrix, or with -DNV of SPV_NV_cooperative_matrix, which dxc of 2022 knows.
// A shader calls CREATE first: types are declared where they are called for.

[[vk::ext_capability(9)]] [[vk::ext_type_def(0, 22)]] void create_half([[vk::ext_literal]] uint bits);
#define HALF vk::ext_type<0>

#ifdef NV
#define A vk::ext_type<1>
#define B A
#define C A
#define LAYOUT(stride) stride, false
#define CREATE create_half(16); HALF component; create_a(component, 3, 8, 8)
[[vk::ext_capability(5357)]] [[vk::ext_extension("SPV_NV_cooperative_matrix")]] [[vk::ext_type_def(1, 5358)]]
void create_a([[vk::ext_reference]] HALF component, uint scope, uint rows, uint columns);
[[vk::ext_instruction(5359)]] A load_a([[vk::ext_reference]] float from, uint stride, bool columns);
#define load_b load_a
#define load_c load_a
[[vk::ext_instruction(5360)]] void store([[vk::ext_reference]] float to, C m, uint stride, bool columns);
[[vk::ext_instruction(5361)]] C multiply(A a, B b, C c);
#else
#define A vk::ext_type<1>
#define B vk::ext_type<2>
#define C vk::ext_type<3>
#define LAYOUT(stride) 0, stride
#define CREATE create_half(16); HALF component; create_a(component, 3, 8, 8, 0); create_b(component, 3, 8, 8, 1); create_c(component, 3, 8, 8, 2)
#define TYPE(number, name) \
    [[vk::ext_capability(6022)]] [[vk::ext_extension("SPV_KHR_cooperative_matrix")]] [[vk::ext_type_def(number, 4456)]] \
    void name([[vk::ext_reference]] HALF component, uint scope, uint rows, uint columns, uint use);
TYPE(1, create_a)
TYPE(2, create_b)
TYPE(3, create_c)
[[vk::ext_instruction(4457)]] A load_a([[vk::ext_reference]] float from, uint layout, uint stride);
[[vk::ext_instruction(4457)]] B load_b([[vk::ext_reference]] float from, uint layout, uint stride);
[[vk::ext_instruction(4457)]] C load_c([[vk::ext_reference]] float from, uint layout, uint stride);
[[vk::ext_instruction(4458)]] void store([[vk::ext_reference]] float to, C m, uint layout, uint stride);
[[vk::ext_instruction(4459)]] C multiply(A a, B b, C c);
#endif
