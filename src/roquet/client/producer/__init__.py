"""Sending: messages become parcels, parcels are posted until a broker has them."""
