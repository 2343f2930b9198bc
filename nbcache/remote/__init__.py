"""Remote tiers behind a store: one helper process a host and user fetches, verifies, signs and uploads entries."""
