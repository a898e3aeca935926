"""FedBary (paper 000): worth of holders and of records, barycenters."""
