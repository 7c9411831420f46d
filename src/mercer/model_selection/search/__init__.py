"""`KernelSearchCV`: a search over kernels, gamma and penalties whose fits share kernel values and solutions."""
