from .predict import predict_images as predict_images
