// Finds out what to do with a module on a device, in C++: handles that free themselves, errors that are thrown.
//
//     c++ -std=c++17 lower.cpp $(pkg-config --cflags --libs coopmat) -o lower
//     ./lower module.spv profile.json lowered.spv

#include <coopmat.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

template <auto Free> struct Freed {
    template <typename T> void operator()(T *handle) const { Free(handle); }
};

using Device = std::unique_ptr<CoopmatDevice, Freed<coopmat_device_free>>;
using Module = std::unique_ptr<CoopmatModule, Freed<coopmat_module_free>>;
using Outcome = std::unique_ptr<CoopmatOutcome, Freed<coopmat_outcome_free>>;
using Error = std::unique_ptr<CoopmatError, Freed<coopmat_error_free>>;

/// Throws what a function answered, if it failed.
template <typename Call> void check(Call call)
{
    CoopmatError *error = nullptr;
    if (call(&error) != COOPMAT_STATUS_OK)
        throw std::runtime_error(coopmat_error_message(Error(error).get()));
}

std::string read(const char *path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw std::runtime_error(std::string(path) + " can't be read");
    return {std::istreambuf_iterator<char>(file), {}};
}

Device device_from(const std::string &json)
{
    CoopmatDevice *device = nullptr;
    check([&](CoopmatError **error) { return coopmat_device_from_json(json.data(), json.size(), &device, error); });
    return Device(device);
}

Module module_from(const std::vector<std::uint32_t> &words)
{
    CoopmatModule *module = nullptr;
    check([&](CoopmatError **error) { return coopmat_module_read(words.data(), words.size(), &module, error); });
    return Module(module);
}

std::string text(const Outcome &outcome, CoopmatText what)
{
    std::size_t count = 0;
    check([&](CoopmatError **error) { return coopmat_outcome_text(outcome.get(), what, nullptr, 0, &count, error); });
    std::string text(count, '\0');
    check([&](CoopmatError **error) {
        return coopmat_outcome_text(outcome.get(), what, text.data(), count, nullptr, error);
    });
    text.resize(count - 1);
    return text;
}

int run(const char *path, const char *profile, const char *output)
{
    const std::string bytes = read(path);
    std::vector<std::uint32_t> words(bytes.size() / sizeof(std::uint32_t));
    std::copy_n(bytes.data(), words.size() * sizeof words[0], reinterpret_cast<char *>(words.data()));
    const Module module = module_from(words);
    const Device device = device_from(read(profile));

    CoopmatOutcome *raw = nullptr;
    check([&](CoopmatError **error) {
        return coopmat_module_for_pipeline(module.get(), device.get(), nullptr, &raw, error);
    });
    const Outcome outcome(raw);
    if (coopmat_outcome_kind(outcome.get()) == COOPMAT_KIND_NATIVE) {
        std::cout << "native\n";
        return 0;
    }
    if (coopmat_outcome_kind(outcome.get()) == COOPMAT_KIND_REFUSED) {
        std::cout << "refused: " << text(outcome, COOPMAT_TEXT_MESSAGE) << '\n';
        return 3;
    }
    std::size_t count = 0;
    check([&](CoopmatError **error) { return coopmat_outcome_words(outcome.get(), nullptr, 0, &count, error); });
    words.resize(count);
    check([&](CoopmatError **error) {
        return coopmat_outcome_words(outcome.get(), words.data(), count, nullptr, error);
    });
    std::ofstream file(output, std::ios::binary);
    file.write(reinterpret_cast<const char *>(words.data()), static_cast<std::streamsize>(count * sizeof words[0]));
    std::cout << "lowered: " << count << " words, since " << text(outcome, COOPMAT_TEXT_BECAUSE) << '\n';
    return file ? 0 : 2;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        if (argc == 4)
            return run(argv[1], argv[2], argv[3]);
        std::cerr << "usage: lower MODULE.spv PROFILE.json OUTPUT.spv\n";
    } catch (const std::exception &error) {
        std::cerr << "lower: " << error.what() << '\n';
    }
    return 2;
}
