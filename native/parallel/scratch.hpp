// Aligned memory that lives during one call.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mercer {

void* allocate_aligned(std::size_t bytes);  // throws std::bad_alloc
void release_aligned(void* memory) noexcept;

class Scratch {
  public:
    explicit Scratch(std::size_t bytes) : memory_(allocate_aligned(bytes)) {}
    ~Scratch() { release_aligned(memory_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    template <class T>
    T* as() const {
        return static_cast<T*>(memory_);
    }

  private:
    void* memory_;
};

}  // namespace mercer
