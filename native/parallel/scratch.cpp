#include "parallel/scratch.hpp"

#include <cstdlib>
#include <new>

namespace mercer {

// Aligned by hand. glibc's aligned_alloc (version 2.36, for example) requests more memory than it returns, so that a
// freed block is too small for the next request of the same size, and the process grows with every call.
void* allocate_aligned(std::size_t bytes) {
    constexpr std::size_t kAlignment = 64;
    void* allocated = std::malloc(bytes + kAlignment + sizeof(void*));
    if (allocated == nullptr) throw std::bad_alloc();
    const auto first = reinterpret_cast<std::uintptr_t>(allocated) + sizeof(void*);
    void* memory = reinterpret_cast<void*>((first + kAlignment - 1) / kAlignment * kAlignment);
    static_cast<void**>(memory)[-1] = allocated;
    return memory;
}

void release_aligned(void* memory) noexcept { std::free(static_cast<void**>(memory)[-1]); }

}  // namespace mercer
