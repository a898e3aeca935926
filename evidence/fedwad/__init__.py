"""FedWaD (paper 002): federated Wasserstein distance along geodesics."""
